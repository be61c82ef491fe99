#include "sim/spec/system_options.h"

#include <fmt/format.h>

#include <utility>

namespace foretrain {
namespace {

constexpr double kMostHostSeconds = 0.1;
constexpr std::int64_t kMostLateOps = 1'000'000;
constexpr std::int64_t kMostCommunicators = 1000;
constexpr std::int64_t kMostBucketBytes = std::int64_t{1} << 40;
constexpr double kLeastShare = 0.001;

constexpr std::array<std::string_view, 3> kWeightNames = {"master", "fp32", "alone"};
constexpr std::array<std::string_view, 2> kGradientNames = {"fp32", "compute"};

constexpr std::array<std::pair<std::string_view, bool SystemOptions::*>, 10> kFlags = {{
    {"shared_gathers", &SystemOptions::shared_gathers},
    {"caching_allocator", &SystemOptions::caching_allocator},
    {"holds_gradients", &SystemOptions::holds_gradients},
    {"ddp_buckets", &SystemOptions::ddp_buckets},
    {"flat_gather", &SystemOptions::flat_gather},
    {"fused_elementwise", &SystemOptions::fused_elementwise},
    {"fused_norm", &SystemOptions::fused_norm},
    {"fused_loss", &SystemOptions::fused_loss},
    {"blocking_sends", &SystemOptions::blocking_sends},
    {"scatter_gather", &SystemOptions::scatter_gather},
}};

std::string ReadValue(std::string_view name, JsonFields& option, SystemOptions& options) {
  if (name == "attention") {
    options.attention = static_cast<AttentionKernel>(option.Choice("value", kAttentionKernelNames));
    return std::string(Name(options.attention));
  }
  if (name == "weights") {
    options.weights = static_cast<WeightStorage>(option.Choice("value", kWeightNames));
    return std::string(kWeightNames[static_cast<std::size_t>(options.weights)]);
  }
  if (name == "gradients") {
    options.gradients = static_cast<GradientFormat>(option.Choice("value", kGradientNames));
    return std::string(kGradientNames[static_cast<std::size_t>(options.gradients)]);
  }
  if (name == "memory_figure") {
    options.memory_figure = static_cast<MemoryFigure>(option.Choice("value", kMemoryFigureNames));
    return std::string(Name(options.memory_figure));
  }
  for (const auto& [flag, member] : kFlags) {
    if (name != flag) continue;
    options.*member = option.Bool("value");
    return options.*member ? "on" : "off";
  }
  if (name == "host_op_s") {
    options.host_op_s = option.Number("value", 0, kMostHostSeconds);
    return fmt::format("{:g}", options.host_op_s);
  }
  if (name == "tp_overlap") {
    options.tp_overlap = option.Number("value", 0, 1);
    return fmt::format("{:g}", options.tp_overlap);
  }
  if (name == "network_share") {
    options.network_share = option.Number("value", kLeastShare, 1);
    return fmt::format("{:g}", options.network_share);
  }
  if (name == "memory_rank") {
    options.memory_rank = static_cast<MemoryRank>(option.Choice("value", kMemoryRankNames));
    return std::string(Name(options.memory_rank));
  }
  if (name == "late_free_ops") {
    options.late_free_ops = static_cast<int>(option.Integer("value", 0, kMostLateOps));
    return std::to_string(options.late_free_ops);
  }
  if (name == "own_communicators") {
    options.own_communicators = static_cast<int>(option.Integer("value", 0, kMostCommunicators));
    return std::to_string(options.own_communicators);
  }
  if (name == "reduce_bucket_bytes") {
    options.reduce_bucket_bytes = option.Integer("value", 0, kMostBucketBytes);
    return std::to_string(options.reduce_bucket_bytes);
  }
  option.Refuse(
      "value",
      "is of no option; use weights, gradients, attention, fused_elementwise, fused_norm, "
      "fused_loss, "
      "host_op_s, blocking_sends, scatter_gather, tp_overlap, network_share, memory_figure, "
      "memory_rank, caching_allocator, holds_gradients, ddp_buckets, flat_gather, shared_gathers, own_communicators, "
      "late_free_ops or "
      "reduce_bucket_bytes");
  return {};
}

}  // namespace

std::vector<SystemOptionSource> ReadSystemOptions(JsonFields& fields, SystemOptions& options) {
  std::vector<SystemOptionSource> sources;
  for (const std::string& name : fields.names()) {
    JsonFields option = fields.Object(name);
    const std::string value = ReadValue(name, option, options);
    sources.push_back({name, value, option.String("source")});
    if (const auto finished = option.Finish(); !finished.has_value()) break;
  }
  return sources;
}

}  // namespace foretrain
