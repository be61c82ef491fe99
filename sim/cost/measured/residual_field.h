// A smooth correction of a physical model: ln(measured / model) over the sizes of a kernel.
// Leaves out the physical models: gemm_model.h, attention_model.h, experts_model.h.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace foretrain {

// Logarithms of sizes and marks of alignment; kinds of kernels with fewer leave the rest at 0.
inline constexpr std::size_t kFieldDimensions = 8;
using FieldPoint = std::array<double, kFieldDimensions>;

// offset + sum over anchors of weight * exp(-distance / reach): Gaussian process regression with an
// exponential kernel, on anchors instead of all samples [1]. Far from all anchors it is `offset`.
// One call costs a square root and an exponential an anchor: 2 us for 200.
//
// [1] Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, s. 8.3.1 (subset of
//     regressors)
struct ResidualField {
  std::vector<FieldPoint> anchors;
  std::vector<double> weights;  // as many as anchors; none: only the offset
  double reach = 1;             // > 0, in units of the points
  double offset = 0;

  double operator()(const FieldPoint& at) const;
  bool operator==(const ResidualField&) const = default;
};

struct FieldFit {
  ResidualField field;
  // For each sample: its value less the value of a field that was fitted without its group.
  std::vector<double> left_out;
};

// Fits weights and offset to `values` at `points`, both of the same length and not empty.
//
//   groups   of the samples, non-decreasing: samples of one group are left out together
//   anchors  positions of the field's anchors, all different
//   reach    distance over which a kernel falls to 1/e
//   noise    variance of one sample relative to the field's; 0.1 suits medians of several libraries
//
// The offset is the median of the values. Samples far from the field count less (a Cauchy loss with
// the width of 0.1), so that single broken measurements do not bend it. The errors without a group
// follow from its leverage, without another fit. O(samples * anchors^2).
FieldFit FitField(std::span<const FieldPoint> points, std::span<const double> values,
                  std::span<const int> groups, std::vector<FieldPoint> anchors, double reach,
                  double noise);

// At most `count` indices into `points`: the first point, then always the point farthest from all
// before it. Equal points are taken once. O(points * count).
std::vector<std::size_t> SpreadPoints(std::span<const FieldPoint> points, std::size_t count);

}  // namespace foretrain
