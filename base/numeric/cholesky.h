// Solves symmetric positive definite systems, for fits of up to about a thousand unknowns.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace foretrain {

// The lower triangular factor L of A = L L^T.
class Cholesky {
 public:
  // Factors the n x n matrix `rows`, row by row; only the lower triangle is read. `nullopt` if the
  // matrix is not positive definite. O(n^3).
  static std::optional<Cholesky> Of(std::vector<double> rows, std::size_t n);

  // Replaces b by the solution y of L y = b. Then |y|^2 = b^T A^-1 b. O(n^2).
  void Forward(std::span<double> b) const;
  // Replaces b by the solution x of A x = b. O(n^2).
  void Solve(std::span<double> b) const;

 private:
  Cholesky(std::vector<double> rows, std::size_t n) : rows_(std::move(rows)), n_(n) {}

  std::vector<double> rows_;
  std::size_t n_;
};

}  // namespace foretrain
