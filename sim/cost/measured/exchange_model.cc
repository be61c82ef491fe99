#include "sim/cost/measured/exchange_model.h"

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kExchangePartCount> kNames = {"dispatch", "combine"};
constexpr std::int64_t kMaxTokenNodes = 4;
// Adapters of 400 Gbit/s, one a device, as in DeepEP's published measurements.
constexpr double kMeasuredNetwork = 50e9;
constexpr double kFp8Bytes = 1 + 4.0 / 128, kHalfBytes = 2;
// Distances in the residual field of a doubling.
constexpr double kNodeStep = 3, kHiddenStep = 2, kTokenStep = 0.5, kExpertStep = 0.3, kUnitStep = 2;

double Log2(std::int64_t count) { return std::log2(static_cast<double>(count)); }

// Distinct ones of `units` units that `topk` of `experts` experts are on. Experts are drawn without
// replacement. With fewer experts than units a unit holds a part of one, so `topk` is the limit.
double Distinct(double units, std::int64_t topk, double experts) {
  double none = 1;  // probability that a unit has none of them
  for (std::int64_t i = 0; i < topk && none > 0; ++i) {
    const double left = experts - static_cast<double>(i);
    if (left <= 0) break;
    none *= std::max(0.0, left - experts / units) / left;
  }
  return std::min(units * (1 - none), static_cast<double>(topk));
}

}  // namespace

std::string_view Name(ExchangePart part) { return kNames[static_cast<std::size_t>(part)]; }

// All candidates are on the nodes that a token may use, so their experts alone are counted. The own
// node is one of these as often as any other.
TokenCopies CopiesOf(const ExchangeShape& shape) {
  const auto nodes = static_cast<double>(shape.nodes);
  const auto used = static_cast<double>(std::min(shape.nodes, kMaxTokenNodes));
  const double experts = static_cast<double>(shape.experts) * used / nodes;
  return {.devices = Distinct(used * static_cast<double>(shape.node_devices), shape.topk, experts),
          .far_nodes = Distinct(used, shape.topk, experts) * (nodes - 1) / nodes};
}

// Multiprocessors copy and add, links and adapters move: three pipelines that overlap more or less,
// as the fitted `overlap` says. A copy to a device of another node passes its links too.
double ExchangeModelSeconds(const ExchangeTerms& terms, const KernelMachine& machine,
                            ExchangePart part, const ExchangeShape& shape) {
  const TokenCopies copies = CopiesOf(shape);
  const auto tokens = static_cast<double>(shape.tokens);
  const double token_bytes = static_cast<double>(shape.hidden) *
                             (part == ExchangePart::kDispatch ? kFp8Bytes : kHalfBytes);
  const double all = terms.own_copies + copies.devices + terms.far_copies * copies.far_nodes;
  const double work = tokens * (token_bytes * all / terms.unit_bytes_per_s + terms.token_s) /
                      static_cast<double>(shape.multiprocessors);
  const double leave = 1 - 1 / static_cast<double>(shape.node_devices);
  const double link =
      tokens * token_bytes * copies.devices * leave / (terms.link_share * machine.link_bytes_per_s);
  double network_rate = terms.network_share * shape.network_bytes_per_s;
  if (shape.network_bytes_per_s <= 0) {
    const double far = shape.nodes > kMaxTokenNodes ? terms.far_share : 1;
    network_rate = terms.network_share * kMeasuredNetwork * far;
  }
  const double network = tokens * token_bytes * copies.far_nodes / network_rate;
  // Relative to the longest, so that no power overflows.
  const double longest = std::max({work, link, network});
  const double q = 1 + terms.overlap;
  const double sum =
      std::pow(work / longest, q) + std::pow(link / longest, q) + std::pow(network / longest, q);
  return terms.launch_s + longest * std::pow(sum, 1 / q);
}

FieldPoint PointOf(const ExchangeShape& shape) {
  return {kNodeStep * Log2(shape.nodes),     kHiddenStep * Log2(shape.hidden),
          kTokenStep * Log2(shape.tokens),   Log2(shape.topk),
          kExpertStep * Log2(shape.experts), kUnitStep * Log2(shape.multiprocessors)};
}

}  // namespace foretrain
