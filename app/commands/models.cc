#include <cstdio>

#include "app/cli/flags/plan_flags.h"
#include "app/commands/commands.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/model/model_json.h"

namespace foretrain {
namespace {

// Lists the catalogue, or prints one model with all its fields as JSON, which is valid input of
// --model.
class Models final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positional("name", name_,
                         "Show only this model, with all its fields: a name, or a file or folder "
                         "as --model takes it");
    DeclareTable(arguments);
    arguments.Footer(
        "A Hugging Face config.json works wherever a name does:\n"
        "  foretrain models path/to/config.json\n"
        "  foretrain predict --model path/to/config.json --cluster 8xh100");
  }

  Result<Exit> Run() override {
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    if (!name_.empty()) return One(catalogue);
    json_ ? PrintJson(catalogue) : PrintTable(catalogue);
    return Exit::kDone;
  }

 private:
  // A model that cannot be planned is an error here: its fields would not work as --model.
  Result<Exit> One(const Catalogue& catalogue) const {
    ModelFlags flags;
    flags.model = name_;
    flags.option = "model";
    FT_ASSIGN(const ModelSpec model, flags.Resolve(catalogue));
    std::puts(ToJson(model).c_str());
    return Exit::kDone;
  }

  // Counted from the fields; for a model that cannot be planned, the published number.
  static double ParametersOf(const ModelEntry& entry) {
    return entry.unsupported.empty() ? static_cast<double>(ParameterCount(entry.spec))
                                     : entry.published_parameters;
  }

  void PrintTable(const Catalogue& catalogue) const {
    Table table({"name", ">parameters", ">layers", ">hidden", ">heads", ">sequence", "aliases",
                 "not planned: why"});
    table.LimitWidth("aliases", 28);
    table.DropFirst({"aliases", "heads"});
    table.Wrap("not planned: why");
    for (const ModelEntry& entry : catalogue.models) {
      const ModelSpec& spec = entry.spec;
      table.AddRow({entry.name, FormatSi(ParametersOf(entry), ""), std::to_string(spec.layers),
                    std::to_string(spec.hidden), std::to_string(spec.heads),
                    std::to_string(spec.max_sequence), Join(entry.aliases, " "),
                    entry.unsupported});
    }
    Show(table);
  }

  static void PrintJson(const Catalogue& catalogue) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Name("models").BeginArray();
    for (const ModelEntry& entry : catalogue.models) {
      json.BeginObject().Field("name", entry.name).Field("aliases", entry.aliases);
      json.Field("title", entry.title).Field("parameters", ParametersOf(entry));
      json.Field("max_sequence", entry.spec.max_sequence);
      json.Field("layers", entry.spec.layers).Field("hidden", entry.spec.hidden);
      json.Field("supported", entry.unsupported.empty()).Field("why_not", entry.unsupported);
      json.Field("source", entry.source).EndObject();
    }
    std::puts(json.EndArray().EndObject().Take().c_str());
  }

  std::string name_;
};

}  // namespace

std::unique_ptr<Command> MakeModels() { return std::make_unique<Models>(); }

}  // namespace foretrain
