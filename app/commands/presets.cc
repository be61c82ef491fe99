#include <cstdio>

#include "app/commands/commands.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/text.h"
#include "sim/config/plan/preset.h"

namespace foretrain {
namespace {

// Lists presets, or one preset with the source of every option. Both come from the built-in table
// alone.
class Presets final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positional("name", name_, "Show only this preset, with the source of each option");
    DeclareTable(arguments);
    arguments.Footer(
        "`predict`, `plan` and `train` take a preset. Options on the command line override it. A\n"
        "preset sets no precision: `predict` and `plan` take bf16 where the device has it, `train` "
        "fp32.\n"
        "  foretrain predict --model llama3-8b --cluster 2x8xh100 --preset megatron-sp --sequence "
        "4k\n"
        "  foretrain plan --model gpt2-1558m --cluster 1x8xa100 --preset torchtitan --zero 2,3");
  }

  Result<Exit> Run() override {
    FT_ASSIGN(const std::vector<Preset> presets, BuiltInPresets());
    if (!name_.empty()) {
      FT_ASSIGN(const Preset preset, FindPreset(presets, name_));
      json_ ? PrintJson({&preset, 1}) : PrintOne(preset);
      return Exit::kDone;
    }
    json_ ? PrintJson(presets) : PrintTable(presets);
    return Exit::kDone;
  }

 private:
  // The degrees over which the preset spreads ranks, in the order of the preset.
  static std::string Axes(const Preset& preset) {
    std::vector<std::string> names;
    for (const PlanField* axis : preset.axes) names.emplace_back(axis->name);
    return Join(names, " ");
  }

  void PrintTable(const std::vector<Preset>& presets) const {
    Table table({"name", "system", "spreads ranks over", "aliases"});
    table.LimitWidth("aliases", 28);
    table.DropFirst({"aliases"});
    table.Wrap("system");
    for (const Preset& preset : presets) {
      table.AddRow({preset.name, preset.title, Axes(preset), Join(preset.aliases, " ")});
    }
    Show(table);
  }

  // One line an option: its value, the other values that the system allows, and the condition under
  // which it applies.
  void PrintOne(const Preset& preset) const {
    std::printf("%s: %s\nranks are spread over: %s\n\n", preset.name.c_str(), preset.title.c_str(),
                Axes(preset).c_str());
    Table table({"option", "value", "also", "needs", "source"});
    for (const PresetOption& option : preset.options) {
      std::vector<std::string> also;
      for (const std::int64_t value : option.also) also.push_back(TextOf(*option.field, value));
      table.AddRow({std::string(FirstOption(*option.field)), TextOf(*option.field, preset.plan),
                    Join(also, ", "),
                    option.needs == nullptr ? "" : std::string(option.needs->name) + " > 1",
                    option.source});
    }
    table.Wrap("source");
    std::fputs(table.Text(0, LineWidth()).c_str(), stdout);
    if (!preset.omits.empty()) std::puts("\nforetrain does not model:");
    for (const std::string& sentence : preset.omits) std::printf("  %s\n", sentence.c_str());
  }

  // Values are texts, as the command line takes them.
  static void PrintJson(std::span<const Preset> presets) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Name("presets").BeginArray();
    for (const Preset& preset : presets) {
      json.BeginObject().Field("name", preset.name).Field("title", preset.title);
      json.Field("aliases", preset.aliases).Name("axes").BeginArray();
      for (const PlanField* axis : preset.axes) json.String(axis->name);
      json.EndArray().Name("options").BeginObject();
      for (const PresetOption& option : preset.options) {
        json.Name(option.field->name).BeginObject();
        json.Field("value", TextOf(*option.field, preset.plan)).Name("also").BeginArray();
        for (const std::int64_t value : option.also) json.String(TextOf(*option.field, value));
        json.EndArray();
        if (option.needs != nullptr) json.Field("needs", option.needs->name);
        json.Field("source", option.source).EndObject();
      }
      json.EndObject().Field("omits", preset.omits).EndObject();
    }
    std::puts(json.EndArray().EndObject().Take().c_str());
  }

  std::string name_;
};

}  // namespace

std::unique_ptr<Command> MakePresets() { return std::make_unique<Presets>(); }

}  // namespace foretrain
