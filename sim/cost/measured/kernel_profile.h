// Measured kernels of one device: constants of the models and residual fields, each with its error.
// kernel_profile_json.h is the text form, sim/validate/kernels/fit_kernels.h makes profiles.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/measured/attention_model.h"
#include "sim/cost/measured/collective_model.h"
#include "sim/cost/measured/exchange_model.h"
#include "sim/cost/measured/experts_model.h"
#include "sim/cost/measured/gemm_model.h"
#include "sim/cost/measured/kernel_machine.h"
#include "sim/cost/measured/residual_field.h"
#include "sim/cost/measured/training_model.h"

namespace foretrain {

// |ln(forecast / measured)| of rows that were left out of the fit one by one.
struct FitError {
  int rows = 0;
  double median = 0, p90 = 0;

  bool operator==(const FitError&) const = default;
};

// One kind of kernel in one format. The field has the anchors of its kind.
template <class Terms>
struct MeasuredKernel {
  Terms terms;
  ResidualField field;
  FitError error;

  bool operator==(const MeasuredKernel&) const = default;
};

template <class Shape, class Terms>
struct MeasuredFormats {
  std::vector<Shape> anchors;
  std::array<std::optional<MeasuredKernel<Terms>>, kProductFormatCount> formats;

  bool operator==(const MeasuredFormats&) const = default;
};

// Collectives of one kind among devices of one node or link domain.
struct CollectiveFit {
  std::vector<CollectiveShape> anchors;
  MeasuredKernel<CollectiveTerms> kernel;

  bool operator==(const CollectiveFit&) const = default;
};

struct KernelProfile {
  std::string device;        // catalogue's name, "H100-80GB-SXM"
  std::string architecture;  // of sim/cost/profile/architectures.json; empty: unknown
  KernelMachine machine;
  double memory_bytes = 0;     // capacity, to tell models of one architecture apart
  double best_flop_per_s = 0;  // best product in 16 bits that was published; 0: unknown
  MeasuredFormats<ProductShape, GemmTerms> products;
  std::array<std::optional<BestShare>, kProductFormatCount> best_products;
  std::vector<AttentionShape> attention_anchors;
  std::optional<MeasuredKernel<AttentionTerms>> attention_forward;
  MeasuredFormats<ExpertsShape, ExpertsTerms> experts;
  std::optional<MeasuredKernel<TrainingTerms>> training;             // no field
  std::optional<MeasuredKernel<AttentionTerms>> attention_backward;  // no field
  std::array<std::optional<CollectiveFit>, kCollectiveCount> collectives;
  std::vector<ExchangeShape> exchange_anchors;
  std::array<std::optional<MeasuredKernel<ExchangeTerms>>, kExchangePartCount> exchanges;

  bool operator==(const KernelProfile&) const = default;
};

}  // namespace foretrain
