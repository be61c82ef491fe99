#include "sim/cost/measured/collective_model.h"

#include <cmath>

namespace foretrain {
namespace {

constexpr double kMemberStep = 2;  // distance in the field of a doubling of the members

}  // namespace

std::optional<std::size_t> CollectiveAt(OpKind kind) {
  for (std::size_t i = 0; i < kMeasuredCollectives.size(); ++i) {
    if (kMeasuredCollectives[i].kind == kind) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> CollectiveAt(std::string_view name) {
  for (std::size_t i = 0; i < kMeasuredCollectives.size(); ++i) {
    if (kMeasuredCollectives[i].name == name) return i;
  }
  return std::nullopt;
}

// Latency and transfer alone bend too sharply between them: a library changes protocols and chunk
// sizes there. Their geometric mean vanishes at both ends, so it leaves latency and rate alone.
double CollectiveModelSeconds(const CollectiveTerms& terms, const KernelMachine& machine,
                              OpKind kind, const CollectiveShape& shape) {
  const auto n = static_cast<double>(shape.members);
  const double passes = kind == OpKind::kAllReduce ? 2 : 1;
  const double latency = terms.base_s + (n - 1) * terms.hop_s;
  const double transfer = passes * (n - 1) / n * static_cast<double>(shape.bytes) /
                          (terms.link_share * machine.link_bytes_per_s);
  return latency + transfer + terms.ramp * std::sqrt(latency * transfer);
}

FieldPoint PointOf(const CollectiveShape& shape) {
  return {std::log2(static_cast<double>(shape.bytes)),
          kMemberStep * std::log2(static_cast<double>(shape.members))};
}

}  // namespace foretrain
