#include "sim/config/plan/system_options.h"

#include <fmt/format.h>

#include <span>
#include <type_traits>
#include <utility>

namespace foretrain {
namespace {

constexpr double kMaxHostSeconds = 0.1;

constexpr std::array<std::string_view, 3> kWeightNames = {"master", "fp32", "alone"};
constexpr std::array<std::string_view, 2> kGradientNames = {"fp32", "compute"};

// Each option is a row of one of these tables, by the type of its value. A new option needs a row
// and its name in the error message below.
constexpr std::array<std::pair<std::string_view, bool SystemOptions::*>, 21> kFlags = {{
    {"shared_gathers", &SystemOptions::shared_gathers},
    {"caching_allocator", &SystemOptions::caching_allocator},
    {"holds_gradients", &SystemOptions::holds_gradients},
    {"keeps_gradients", &SystemOptions::keeps_gradients},
    {"ddp_buckets", &SystemOptions::ddp_buckets},
    {"flat_gather", &SystemOptions::flat_gather},
    {"flat_update", &SystemOptions::flat_update},
    {"wide_norm", &SystemOptions::wide_norm},
    {"pinned_powers", &SystemOptions::pinned_powers},
    {"profiled", &SystemOptions::profiled},
    {"cuda_graphs", &SystemOptions::cuda_graphs},
    {"fused_elementwise", &SystemOptions::fused_elementwise},
    {"fused_norm", &SystemOptions::fused_norm},
    {"fused_loss", &SystemOptions::fused_loss},
    {"late_metrics", &SystemOptions::late_metrics},
    {"whole_recompute", &SystemOptions::whole_recompute},
    {"blocking_sends", &SystemOptions::blocking_sends},
    {"scatter_gather", &SystemOptions::scatter_gather},
    {"blocking_tp", &SystemOptions::blocking_tp},
    {"fused_accumulation", &SystemOptions::fused_accumulation},
    {"node_dispatch", &SystemOptions::node_dispatch},
}};

// An option that is a real number from `low` to `high`.
struct ShareField {
  std::string_view name;
  double SystemOptions::*share;
  double low = 0, high = 0;
};
constexpr std::array<ShareField, 2> kShares = {{
    {"host_op_s", &SystemOptions::host_op_s, 0, kMaxHostSeconds},
    {"tp_overlap", &SystemOptions::tp_overlap, 0, 1},
}};

// An option that is one of several names.
struct ChoiceField {
  std::string_view name;
  std::span<const std::string_view> names;
  std::size_t (*get)(const SystemOptions&);
  void (*set)(SystemOptions&, std::size_t);
};
template <auto kMember>
constexpr ChoiceField Choice(std::string_view name, std::span<const std::string_view> names) {
  return {name, names,
          [](const SystemOptions& of) { return static_cast<std::size_t>(of.*kMember); },
          [](SystemOptions& of, std::size_t value) {
            of.*kMember = static_cast<std::remove_reference_t<decltype(of.*kMember)>>(value);
          }};
}
constexpr std::array<ChoiceField, 6> kChoices = {{
    Choice<&SystemOptions::attention>("attention", kAttentionKernelNames),
    Choice<&SystemOptions::weights>("weights", kWeightNames),
    Choice<&SystemOptions::gradients>("gradients", kGradientNames),
    Choice<&SystemOptions::memory_figure>("memory_figure", kMemoryFigureNames),
    Choice<&SystemOptions::memory_rank>("memory_rank", kMemoryRankNames),
    Choice<&SystemOptions::load>("load", kLoadOrderNames),
}};

// An integer option from 0 to `max`.
struct CountField {
  std::string_view name;
  std::int64_t SystemOptions::*count;
  std::int64_t max;
};
constexpr std::array<CountField, 8> kCounts = {{
    {"late_free_ops", &SystemOptions::late_free_ops, 1'000'000},
    {"late_gathers", &SystemOptions::late_gathers, 1000},
    {"own_communicators", &SystemOptions::own_communicators, 1000},
    {"adapters_used", &SystemOptions::adapters_used, 1024},
    {"reduce_bucket_bytes", &SystemOptions::reduce_bucket_bytes, std::int64_t{1} << 40},
    {"flat_reduce_elements", &SystemOptions::flat_reduce_elements, std::int64_t{1} << 40},
    {"logit_bytes", &SystemOptions::logit_bytes, 4},
    {"context_bytes", &SystemOptions::context_bytes, std::int64_t{1} << 40},
}};

// Looks the name up in each table in turn. Returns the value as text, for display.
std::string ReadValue(std::string_view name, JsonFields& option, SystemOptions& options) {
  for (const ChoiceField& field : kChoices) {
    if (name != field.name) continue;
    field.set(options, option.Choice("value", field.names));
    return std::string(field.names[field.get(options)]);
  }
  for (const auto& [flag, member] : kFlags) {
    if (name != flag) continue;
    options.*member = option.Bool("value");
    return options.*member ? "on" : "off";
  }
  for (const ShareField& field : kShares) {
    if (name != field.name) continue;
    options.*field.share = option.Number("value", field.low, field.high);
    return fmt::format("{:g}", options.*field.share);
  }
  for (const CountField& field : kCounts) {
    if (name != field.name) continue;
    options.*field.count = option.Integer("value", 0, field.max);
    return std::to_string(options.*field.count);
  }
  option.Refuse(
      "value",
      "is of no option; use weights, gradients, attention, cuda_graphs, fused_elementwise, "
      "fused_norm, "
      "fused_loss, late_metrics, fused_accumulation, host_op_s, whole_recompute, "
      "blocking_sends, blocking_tp, scatter_gather, tp_overlap, node_dispatch, adapters_used, "
      "memory_figure, memory_rank, caching_allocator, holds_gradients, keeps_gradients, "
      "ddp_buckets, flat_gather, flat_update, wide_norm, shared_gathers, own_communicators, "
      "late_free_ops, late_gathers, reduce_bucket_bytes, flat_reduce_elements, logit_bytes, "
      "context_bytes, profiled, pinned_powers or load");
  return {};
}

}  // namespace

// Each option has a source, which reports quote; reading stops at the first error.
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

// Profiles store all options, so that a later change of defaults does not change a profile.
void WriteSystemOptions(const SystemOptions& options, JsonWriter& json) {
  const auto write = [&json](std::string_view name, const auto& value) {
    json.Name(name).BeginObject().Field("value", value).Field("source", "profile").EndObject();
  };
  for (const ChoiceField& field : kChoices) write(field.name, field.names[field.get(options)]);
  for (const auto& [flag, member] : kFlags) write(flag, options.*member);
  for (const ShareField& field : kShares) write(field.name, options.*field.share);
  for (const CountField& field : kCounts) write(field.name, options.*field.count);
}

}  // namespace foretrain
