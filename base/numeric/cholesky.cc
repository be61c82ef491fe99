#include "base/numeric/cholesky.h"

#include <cmath>
#include <utility>

#include "base/result.h"

namespace foretrain {

// Row by row, so that both factors of each sum lie in consecutive memory.
std::optional<Cholesky> Cholesky::Of(std::vector<double> rows, std::size_t n) {
  FT_CHECK(rows.size() == n * n);
  for (std::size_t i = 0; i < n; ++i) {
    double* row = &rows[i * n];
    for (std::size_t j = 0; j <= i; ++j) {
      const double* other = &rows[j * n];
      double sum = row[j];
      for (std::size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      if (i == j && !(sum > 0)) return std::nullopt;
      row[j] = i == j ? std::sqrt(sum) : sum / other[j];
    }
  }
  return Cholesky(std::move(rows), n);
}

void Cholesky::Forward(std::span<double> b) const {
  FT_CHECK(b.size() == n_);
  for (std::size_t i = 0; i < n_; ++i) {
    const double* row = &rows_[i * n_];
    for (std::size_t k = 0; k < i; ++k) b[i] -= row[k] * b[k];
    b[i] /= row[i];
  }
}

// After the forward pass, L^T x = y is solved by columns of L^T, which are rows of L.
void Cholesky::Solve(std::span<double> b) const {
  Forward(b);
  for (std::size_t i = n_; i-- > 0;) {
    const double* row = &rows_[i * n_];
    b[i] /= row[i];
    for (std::size_t k = 0; k < i; ++k) b[k] -= row[k] * b[i];
  }
}

}  // namespace foretrain
