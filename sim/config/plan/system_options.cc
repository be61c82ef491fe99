#include "sim/config/plan/system_options.h"

#include <fmt/format.h>

#include <span>
#include <type_traits>
#include <vector>

#include "base/json/members.h"

namespace foretrain {
namespace {

constexpr double kMaxHostSeconds = 0.1;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // or bytes

constexpr std::array<std::string_view, 3> kWeightNames = {"master", "fp32", "alone"};
constexpr std::array<std::string_view, 2> kGradientNames = {"fp32", "compute"};

// Each option is a row here or in kChoices.
using Member = JsonMember<SystemOptions>;
constexpr std::array kMembers = {
    Member{"shared_gathers", &SystemOptions::shared_gathers},
    Member{"caching_allocator", &SystemOptions::caching_allocator},
    Member{"holds_gradients", &SystemOptions::holds_gradients},
    Member{"keeps_gradients", &SystemOptions::keeps_gradients},
    Member{"ddp_buckets", &SystemOptions::ddp_buckets},
    Member{"flat_gather", &SystemOptions::flat_gather},
    Member{"flat_update", &SystemOptions::flat_update},
    Member{"wide_norm", &SystemOptions::wide_norm},
    Member{"pinned_powers", &SystemOptions::pinned_powers},
    Member{"profiled", &SystemOptions::profiled},
    Member{"cuda_graphs", &SystemOptions::cuda_graphs},
    Member{"fused_elementwise", &SystemOptions::fused_elementwise},
    Member{"fused_norm", &SystemOptions::fused_norm},
    Member{"fused_softmax", &SystemOptions::fused_softmax},
    Member{"fused_loss", &SystemOptions::fused_loss},
    Member{"late_metrics", &SystemOptions::late_metrics},
    Member{"whole_recompute", &SystemOptions::whole_recompute},
    Member{"blocking_sends", &SystemOptions::blocking_sends},
    Member{"scatter_gather", &SystemOptions::scatter_gather},
    Member{"blocking_tp", &SystemOptions::blocking_tp},
    Member{"fused_accumulation", &SystemOptions::fused_accumulation},
    Member{"node_dispatch", &SystemOptions::node_dispatch},
    Member{"pipeline_gathers_once", &SystemOptions::pipeline_gathers_once},
    Member{"host_op_s", &SystemOptions::host_op_s, 0, kMaxHostSeconds},
    Member{"framework_overhead", &SystemOptions::framework_overhead, 0, 1},
    Member{"expert_host_s", &SystemOptions::expert_host_s, 0, kMaxHostSeconds},
    Member{"part_copy_s", &SystemOptions::part_copy_s, 0, kMaxHostSeconds},
    Member{"tp_overlap", &SystemOptions::tp_overlap, 0, 1},
    Member{"ep_overlap", &SystemOptions::ep_overlap, 0, 1},
    Member{"late_free_ops", &SystemOptions::late_free_ops, 0, 1e6},
    Member{"late_gathers", &SystemOptions::late_gathers, 0, 1000},
    Member{"own_communicators", &SystemOptions::own_communicators, 0, 1000},
    Member{"adapters_used", &SystemOptions::adapters_used, 0, 1024},
    Member{"reduce_bucket_bytes", &SystemOptions::reduce_bucket_bytes, 0, kMaxElements},
    Member{"flat_reduce_elements", &SystemOptions::flat_reduce_elements, 0, kMaxElements},
    Member{"logit_bytes", &SystemOptions::logit_bytes, 0, 4},
    Member{"context_bytes", &SystemOptions::context_bytes, 0, kMaxElements},
    Member{"workspace_bytes", &SystemOptions::workspace_bytes, 0, kMaxElements},
};

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

template <class T>
std::string TextOf(T value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "on" : "off";
  return fmt::format(std::is_same_v<T, double> ? "{:g}" : "{}", value);
}

// Returns the value as text, for display.
std::string ReadValue(std::string_view name, JsonFields& option, SystemOptions& options) {
  std::vector<std::string_view> known;
  for (const ChoiceField& field : kChoices) {
    known.push_back(field.name);
    if (name != field.name) continue;
    field.set(options, option.Choice("value", field.names));
    return std::string(field.names[field.get(options)]);
  }
  for (const Member& member : kMembers) {
    known.push_back(member.name);
    if (name != member.name) continue;
    ReadMember(option, "value", member, options, /*required=*/true);
    return std::visit([&](auto at) { return TextOf(options.*at); }, member.at);
  }
  option.Refuse("value", fmt::format("is of no option; use {}", fmt::join(known, ", ")));
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
  for (const Member& member : kMembers) {
    std::visit([&](auto at) { write(member.name, options.*at); }, member.at);
  }
}

}  // namespace foretrain
