#include "sim/validate/families.h"

#include <algorithm>
#include <optional>

#include "base/embedded.h"
#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_json.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

constexpr std::string_view kFile = "sim/validate/families.json";
constexpr std::int64_t kMaxHeads = 1 << 20;
constexpr std::int64_t kMaxLayersApart = 1000;
constexpr std::int64_t kMaxAdapters = 1024;
constexpr std::int64_t kMaxRows = 1'000'000;

// Reads one family. `fields` remembers the first error; RunFamiliesFromJson checks it with Finish.
RunFamily ReadFamily(JsonFields& fields) {
  RunFamily family;
  family.name = fields.String("family", 64);
  family.preset = fields.String("preset", 64);
  family.zero_3_preset = fields.StringOr("zero_3_preset", "", 64);
  family.heads = fields.IntegerOr("heads", 0, 1, kMaxHeads);
  for (JsonFields& rows : fields.ObjectsOr("rows")) {
    family.rows.push_back({rows.Integer("first", 0, kMaxRows), rows.Integer("last", 0, kMaxRows),
                           rows.String("preset", 64)});
    (void)rows.Finish();
  }
  family.end_blocks_count = fields.BoolOr("end_blocks_count", false);
  family.selective_every =
      static_cast<int>(fields.IntegerOr("selective_every", 0, 1, kMaxLayersApart));
  family.recompute = fields.StringOr("recompute", "", 16);
  family.adapters_per_node =
      static_cast<int>(fields.IntegerOr("adapters_per_node", 0, 1, kMaxAdapters));
  family.stages_by_parameters = fields.BoolOr("stages_by_parameters", false);
  for (JsonFields& noted : fields.ObjectsOr("noted")) {
    RunFamily::Noted& out = family.noted.emplace_back();
    out.words = noted.String("words", 200);
    out.dtype = noted.StringOr("dtype", "", 16);
    if (noted.Has("recompute_modules")) {
      Plan plan;
      ReadPlanField(noted, "recompute_modules", PlanFieldOf("recompute_modules"), plan);
      out.modules = plan.recompute_modules;
    }
    if (noted.Has("attention")) {
      out.attention =
          static_cast<AttentionKernel>(noted.Choice("attention", kAttentionKernelNames));
    }
    if (noted.Has("fused_norm")) out.fused_norm = noted.Bool("fused_norm");
    if (noted.Has("fused_softmax")) out.fused_softmax = noted.Bool("fused_softmax");
    if (noted.Has("fused_elementwise")) out.fused_elementwise = noted.Bool("fused_elementwise");
    if (noted.Has("fused_loss")) out.fused_loss = noted.Bool("fused_loss");
    if (noted.Has("node_dispatch")) out.node_dispatch = noted.Bool("node_dispatch");
    if (noted.Has("ep_overlap")) out.ep_overlap = noted.Number("ep_overlap", 0, 1);
    if (noted.Has("host_op_s")) out.host_op_s = noted.Number("host_op_s", 0, 1);
    (void)noted.Finish();
  }
  family.network_hop_s = fields.NumberOr("network_hop_s", 0, 0, 1);
  family.slow_launch_s = fields.NumberOr("slow_launch_s", 0, 0, 1);
  for (JsonFields& usual : fields.ObjectsOr("gathers")) {
    const auto nodes = static_cast<int>(usual.Integer("nodes", 2, kMaxRows));
    family.gather_bytes_per_s[nodes] = usual.Number("gb_per_s", 0, 1e6) * 1e9;
    (void)usual.Finish();
  }
  if (std::optional<JsonFields> heads = fields.ObjectOr("heads_of_hidden")) {
    for (const std::string& hidden : heads->names()) {
      const auto width = ParseInt("heads_of_hidden", hidden, 1, std::int64_t{1} << 31);
      if (!width.has_value()) {
        heads->Refuse(hidden, "is no hidden size; name an integer such as 14336");
        break;
      }
      family.heads_of_hidden[*width] = heads->Integer(hidden, 1, kMaxHeads);
    }
    (void)heads->Finish();
  }
  return family;
}

DefaultPreset ReadDefault(JsonFields& fields) {
  DefaultPreset out;
  out.preset = fields.String("preset", 64);
  out.because = fields.String("because", 200);
  out.zero_stage = static_cast<int>(fields.IntegerOr("zero_stage", 0, 0, 3));
  out.pp = static_cast<int>(fields.IntegerOr("pp", 1, 1, kMaxRows));
  out.tp = static_cast<int>(fields.IntegerOr("tp", 1, 1, kMaxRows));
  out.experts = fields.IntegerOr("experts", 0, 0, kMaxRows);
  out.gated_mlp = fields.BoolOr("gated_mlp", false);
  out.sequence_parallel = fields.BoolOr("sequence_parallel", false);
  out.method = fields.StringOr("method", "", 16);
  return out;
}

}  // namespace

// Preset of a row. Ids end in "-<number>"; a row in one of the listed ranges has the range's
// preset.
const std::string& RunFamily::PresetOf(std::string_view id, bool sharded) const {
  if (sharded && !zero_3_preset.empty()) return zero_3_preset;
  const auto number = ParseInt("id", id.substr(id.rfind('-') + 1), 0, kMaxRows);
  for (const Rows& some : rows) {
    if (number.has_value() && *number >= some.first && *number <= some.last) return some.preset;
  }
  return preset;
}

RunFamily RunFamilies::Find(std::string_view name) const {
  const auto found = std::find_if(families.begin(), families.end(),
                                  [name](const RunFamily& family) { return family.name == name; });
  if (found != families.end()) return *found;
  RunFamily family;
  family.name = name;
  return family;
}

void RunFamily::ApplyNotes(std::string_view notes, SystemOptions& system) const {
  for (const Noted& of : noted) {
    if (notes.find(of.words) == std::string_view::npos) continue;
    system.attention = of.attention.value_or(system.attention);
    system.fused_norm = of.fused_norm.value_or(system.fused_norm);
    system.fused_softmax = of.fused_softmax.value_or(system.fused_softmax);
    system.fused_elementwise = of.fused_elementwise.value_or(system.fused_elementwise);
    system.fused_loss = of.fused_loss.value_or(system.fused_loss);
    system.node_dispatch = of.node_dispatch.value_or(system.node_dispatch);
    system.host_op_s = of.host_op_s.value_or(system.host_op_s);
    system.ep_overlap = of.ep_overlap.value_or(system.ep_overlap);
  }
}

const std::string& RunFamily::DtypeOf(const PublishedRun& run) const {
  const auto says = [&run](const Noted& of) {
    return !of.dtype.empty() && run.assumptions.find(of.words) != std::string::npos;
  };
  const auto found = std::find_if(noted.begin(), noted.end(), says);
  return found == noted.end() ? run.dtype : found->dtype;
}

RecomputeModules RunFamily::ModulesOf(const PublishedRun& run) const {
  RecomputeModules modules = 0;
  for (const Noted& of : noted) {
    if (run.assumptions.find(of.words) != std::string::npos) modules |= of.modules;
  }
  return modules;
}

const DefaultPreset& RunFamilies::DefaultOf(const PublishedRun& run) const {
  const auto meets = [&run](const DefaultPreset& of) {
    return run.zero_stage.value_or(0) >= of.zero_stage && run.pp >= of.pp && run.tp >= of.tp &&
           run.experts >= of.experts && (!of.gated_mlp || run.gated_mlp) &&
           (!of.sequence_parallel || run.sequence_parallel) &&
           (of.method.empty() || of.method == run.method);
  };
  const auto found = std::find_if(defaults.begin(), defaults.end(), meets);
  FT_CHECK(found != defaults.end());
  return *found;
}

// Each family is finished before the next is read, so an error names the family it is in.
Result<RunFamilies> RunFamiliesFromJson(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  RunFamilies out;
  for (JsonFields& family : fields.Objects("families")) {
    out.families.push_back(ReadFamily(family));
    FT_TRY(family.Finish());
  }
  for (JsonFields& otherwise : fields.Objects("otherwise")) {
    out.defaults.push_back(ReadDefault(otherwise));
    FT_TRY(otherwise.Finish());
  }
  if (out.defaults.empty() || !(out.defaults.back().IsForAll())) {
    fields.Refuse("otherwise", "must end in an entry without conditions");
  }
  FT_TRY(fields.Finish());
  return out;
}

Result<RunFamilies> BuiltInRunFamilies() {
  const EmbeddedFile* file = FindEmbedded(sim_data::Files(), kFile);
  FT_CHECK(file != nullptr);
  return RunFamiliesFromJson(file->text, kFile);
}

}  // namespace foretrain
