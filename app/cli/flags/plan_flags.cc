#include "app/cli/flags/plan_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/io/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_json.h"
#include "sim/config/plan/plan_values.h"
#include "sim/config/schedule/schedule_csv.h"
#include "sim/search/space/default_space.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxSpecBytes = 16 * kMiB;
constexpr int kFillingMicroBatches = 4;  // micro-batches a stage that keep a pipeline busy

// The file of --schedule-file. It decides pp, unless that is given.
Result<void> LaySchedule(const PlanFlags& flags, Plan& plan) {
  const std::string& file = flags.Text("schedule_slots");
  if (flags.Given("schedule") && flags.Text("schedule") != Name(ScheduleKind::kCustom)) {
    return Fail(ErrorCode::kInvalidArgument, "--schedule " + Printable(flags.Text("schedule")) +
                                                 " with --schedule-file " + Printable(file) +
                                                 ": the file is the schedule; give one of the two");
  }
  PosixFileSystem files;
  FT_ASSIGN(const std::string text, ReadFile(files, file, kMaxScheduleBytes));
  FT_ASSIGN(plan.slots, SlotOrder::FromCsv(text, file));
  plan.schedule = ScheduleKind::kCustom;
  if (flags.plan_file.empty() && !flags.Given("pp")) plan.pp = plan.slots.ranks();
  return {};
}

// Sets the plan's fields to the options that were given.
Result<void> LayGiven(const PlanFlags& flags, Plan& plan) {
  for (const PlanField& field : PlanFields()) {
    if (!flags.Given(field.name)) continue;
    FT_TRY(field.slots != nullptr ? LaySchedule(flags, plan)
                                  : SetPlanField(field, flags.Text(field.name), plan));
  }
  return {};
}

// Bounded: a file above kMaxSpecBytes is refused before it is parsed.
Result<Plan> ReadPlanFile(const std::string& file) {
  PosixFileSystem files;
  FT_ASSIGN(const std::string text, ReadFile(files, file, kMaxSpecBytes));
  return PlanFromJson(text, file);
}

// Leaves to the search the preset's degrees and the options that it offers several values for.
void ChooseAsPreset(const Preset& preset, const PlanFlags& flags,
                    const std::vector<std::int64_t>& degrees, SearchSpace& space) {
  // A field that the preset does not name keeps its default.
  std::erase_if(space.choices, [](const SearchChoice& choice) {
    return choice.field->name != "micro_batch" && choice.field->name != "recompute";
  });
  for (const std::string_view axis : {"dp", "cp", "tp", "pp"}) {
    space.Choose(axis, preset.Has(PlanFieldOf(axis)) ? degrees : std::vector<std::int64_t>{1});
  }
  const Plan standard;
  for (const std::string_view field : {"schedule", "zero_stage"}) {
    space.Choose(field, {PlanFieldOf(field).get(standard)});
  }
  space.orders_ranks = false;
  for (const PresetOption& option : preset.options) {
    const PlanField& field = *option.field;
    if (field.get == nullptr) {
      CopyField(field, preset.plan, space.base);
      continue;
    }
    // The preset's own value comes first, then the values that the system also allows.
    std::vector<std::int64_t> values = {field.get(preset.plan)};
    values.insert(values.end(), option.also.begin(), option.also.end());
    space.Choose(field.name, std::move(values));
  }
  space.complete = [preset, given = flags.GivenFields()](Plan& plan) {
    DropUnmetOptions(preset, given, plan);
    ApplyFormats(preset, given, plan);
  };
}

// The smallest batch that keeps every stage busy with the largest micro-batch.
std::int64_t FillingBatch(std::int64_t dp, std::int64_t pp, std::int64_t micro_batch) {
  return dp * micro_batch * (pp > 1 ? kFillingMicroBatches * pp : 1);
}

}  // namespace

PlanFlags::PlanFlags() : texts(PlanFields().size(), "auto") {}

std::size_t PlanFlags::IndexOf(std::string_view field) {
  return static_cast<std::size_t>(&PlanFieldOf(field) - PlanFields().data());
}

std::vector<const PlanField*> PlanFlags::GivenFields() const {
  std::vector<const PlanField*> given;
  for (const PlanField& field : PlanFields()) {
    if (Given(field.name)) given.push_back(&field);
  }
  return given;
}

std::int64_t PlanFlags::GivenRanks() const {
  std::int64_t ranks = 1;
  for (const char* field : {"dp", "cp", "tp", "pp"}) {
    const std::string& text = Text(field);
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    if (!is_number || size < 1) continue;
    ranks = std::min<std::int64_t>(kMaxRanks, ranks * std::min<std::int64_t>(kMaxRanks, size));
  }
  return ranks;
}

int GpuVocabMultiple(const ModelSpec& model) {
  constexpr std::int64_t kWord = 8, kLeast = 1024;
  constexpr int kTile = 128;
  return model.vocab % kWord == 0 || model.vocab < kLeast ? 1 : kTile;
}

void PreferForGpu(const ModelSpec& model, PlanFlags& flags) {
  if (!flags.plan_file.empty()) return;
  if (!flags.Given("vocab_multiple")) {
    flags.Text("vocab_multiple") = std::to_string(GpuVocabMultiple(model));
  }
  if (!flags.Given("logits")) flags.Text("logits") = "compute";
  if (!flags.Given("fuse")) flags.Text("fuse") = "all";
}

// A plan file fixes every option, so a preset in addition could only contradict it.
Result<std::optional<Preset>> PlanFlags::ResolvePreset() const {
  if (preset.empty()) return std::nullopt;
  if (!plan_file.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--preset " + Printable(preset) + " with --plan " + Printable(plan_file) +
                    ": a plan file holds every option; give one of the two");
  }
  FT_ASSIGN(const std::vector<Preset> presets, BuiltInPresets());
  FT_ASSIGN(Preset found, FindPreset(presets, preset));
  // With --tp-tiles the program itself overlaps, so the preset's own overlap must not count twice.
  if (Given("tp_tiles")) found.system.tp_overlap = 0;
  return found;
}

// Generates an option for each plan field, so that a field cannot exist without one. "auto" stands
// for "not given".
void PlanFlags::Declare(Arguments& arguments) {
  arguments.Section("Plan");
  arguments.Option("--plan", plan_file, "FILE", "Plan file; other options override it");
  arguments.Option("--preset", preset, "NAME",
                   "Train as a known system does (`foretrain presets`); other options override it");
  const auto fields = PlanFields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string options(fields[i].options);
    std::string help(fields[i].help);
    if (fields[i].type == PlanFieldType::kFlag) {
      arguments.Switch(options, texts[i], help);
    } else {
      arguments.Option(options, texts[i], std::string(fields[i].value_name), help);
    }
  }
}

// Starts from the default space, narrows it to the preset's options, then to the values that were
// given. Fields that follow from others are set by `complete` at each plan of the search.
Result<SearchSpace> ChoicesOf(const PlanFlags& flags, const ModelSpec& model,
                              const ClusterSpec& cluster) {
  const int ranks = cluster.Devices();
  std::vector<std::int64_t> divisors;
  for (int d = 1; d <= ranks; ++d) {
    if (ranks % d == 0) divisors.push_back(d);
  }
  Plan base;
  if (!flags.plan_file.empty()) {
    FT_ASSIGN(base, ReadPlanFile(flags.plan_file));
  }
  if (flags.plan_file.empty()) base.precision = DefaultPrecision(cluster);
  base.sequence = DefaultSequence(model);
  if (flags.Given("sequence")) {
    FT_TRY(SetPlanField(PlanFieldOf("sequence"), flags.Text("sequence"), base));
  }
  // Every plan of the search trains the same batch.
  base.global_batch = DefaultBatch(ranks, base.sequence);
  SearchSpace out = DefaultSpace(model, cluster, ranks, base);
  // A plan file states the order, as it does every option that the search leaves alone.
  if (!flags.plan_file.empty() || flags.Given("rank_order")) out.orders_ranks = false;
  FT_ASSIGN(const std::optional<Preset> preset, flags.ResolvePreset());
  if (preset) {
    ChooseAsPreset(*preset, flags, divisors, out);
    if (!cluster.is_cpu) {
      out.complete = [complete = out.complete, preset = *preset,
                      given = flags.GivenFields()](Plan& plan) {
        complete(plan);
        ApplySoftware(preset, given, plan);
      };
    }
  }
  for (const PlanField& field : PlanFields()) {
    const std::string& text = flags.Text(field.name);
    if (text == "auto") continue;
    if (field.slots != nullptr) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--schedule-file " + Printable(text) +
                      ": a search tries schedules that fit any pipeline, and a file is of one; "
                      "give it to predict or train");
    }
    // Every plan of a search trains the same batch of the same samples.
    const bool one = field.name == "sequence" || field.name == "global_batch";
    if (one || field.number != nullptr || field.list != nullptr) {
      FT_TRY(SetPlanField(field, text, out.base));
    } else {
      FT_ASSIGN(std::vector<std::int64_t> values, ParsePlanValues(field, text));
      out.Choose(field.name, std::move(values));
    }
  }
  if (!flags.Given("micro_batch")) out.Choose("micro_batch", MicroBatchesOf(out.base.global_batch));
  return out;
}

// Later sources override earlier ones: defaults, plan file, options, preset. The preset leaves
// given options alone. Open degrees come last, because they depend on all the others.
Result<Plan> PlanOf(const PlanFlags& flags, const ModelSpec& model, int ranks) {
  Plan plan;
  const bool from_file = !flags.plan_file.empty();
  if (from_file) {
    FT_ASSIGN(plan, ReadPlanFile(flags.plan_file));
  }
  // First, because a batch may be given in tokens.
  if (!from_file) plan.sequence = DefaultSequence(model);
  FT_TRY(LayGiven(flags, plan));
  FT_ASSIGN(const std::optional<Preset> preset, flags.ResolvePreset());
  if (preset) {
    const std::vector<const PlanField*> given = flags.GivenFields();
    SpreadRanks(*preset, model, ranks, given, plan);
    ApplyPreset(*preset, given, plan);
    ApplyFormats(*preset, given, plan);
  }
  if (!from_file) {
    if (!preset && !flags.Given("dp")) {
      const std::int64_t split = std::int64_t{plan.cp} * plan.tp * plan.pp;
      // dp takes the ranks that cp, tp and pp leave. A product of 0 or above the ranks is left to
      // ValidatePlan, which names the field.
      plan.dp =
          static_cast<int>(std::max<std::int64_t>(1, ranks / std::max<std::int64_t>(1, split)));
    }
    if (!flags.Given("micro_batch")) plan.micro_batch = 1;
    if (!flags.Given("global_batch")) {
      // ValidatePlan refuses a micro-batch of 0 and names it.
      const std::int64_t micro_batch = std::max<std::int64_t>(1, plan.micro_batch);
      plan.global_batch = plan.slots.empty() ? FillingBatch(plan.dp, plan.pp, micro_batch)
                                             : plan.dp * micro_batch * plan.slots.micro_batches();
    }
  }
  FT_TRY(ValidatePlan(plan, model));
  return plan;
}

// The shortest command line that gives this plan again: fields at their default are left out.
std::string CommandLineOf(const ModelFlags& model, const Plan& plan) {
  std::string text = model.from.empty()        ? "--model " + model.model
                     : model.described.empty() ? "--from " + model.from + " --model " + model.model
                                               : "--from " + model.from;
  const auto add = [&](const char* option, std::int64_t value) {
    if (value != 0) text += std::string(" ") + option + " " + std::to_string(value);
  };
  add("--layers", model.layers);
  add("--hidden", model.hidden);
  add("--heads", model.heads);
  add("--vocab", model.vocab);
  for (const PlanField& field : PlanFields()) {
    // dp is always written: left out, it takes all remaining ranks. So is a default where a launch
    // file gives another value.
    const bool overrules = std::count(model.from_fields.begin(), model.from_fields.end(), &field);
    if (HasDefault(field, plan) && field.name != "dp" && !overrules) continue;
    text.append(" ").append(FirstOption(field));
    if (field.type != PlanFieldType::kFlag) {
      text += " " + TextOf(field, plan);
    } else if (HasDefault(field, plan)) {
      text += "=" + TextOf(field, plan);
    }
  }
  return text;
}

}  // namespace foretrain
