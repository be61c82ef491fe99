#include <cstdio>

#include "app/commands/commands.h"
#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/spec/catalogue.h"
#include "sim/spec/cluster_json.h"

namespace foretrain {
namespace {

class Clusters final : public Command {
 public:
  std::string_view Name() const override { return "clusters"; }
  std::string_view Summary() const override {
    return "List the accelerators that clusters are made of";
  }

  void Declare(Arguments& arguments) override {
    arguments.Positional("cluster", cluster_, "Show this cluster as JSON, e.g. 64x8xA100-80GB-SXM");
    DeclareJson(arguments);
    arguments.Footer(
        "A cluster is written NODESxGPUSxGPU, GPUSxGPU or GPU: 64x8xA100-80GB-SXM, 8xh100, h100.\n"
        "Its JSON, edited, works as --cluster FILE.");
  }

  Result<Exit> Run() override {
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    if (!cluster_.empty()) {
      FT_ASSIGN(const ClusterSpec cluster, ParseCluster(cluster_, catalogue));
      std::puts(ToJson(cluster).c_str());
      return Exit::kDone;
    }
    json_ ? PrintJson(catalogue) : PrintTable(catalogue);
    return Exit::kDone;
  }

 private:
  static std::string Rate(double value, const char* unit) {
    return value > 0 ? FormatSi(value, unit) : "-";
  }

  static void PrintTable(const Catalogue& catalogue) {
    Table table({{"name"},
                 {"memory", Align::kRight},
                 {"bandwidth", Align::kRight},
                 {"bf16", Align::kRight},
                 {"fp32", Align::kRight},
                 {"link", Align::kRight},
                 {"aliases", Align::kLeft, 24},
                 {"not usable: why", Align::kLeft, 30}});
    for (const GpuEntry& gpu : catalogue.gpus) {
      const DeviceSpec& device = gpu.device;
      table.AddRow({gpu.name, FormatBytes(device.memory_bytes),
                    Rate(device.memory_bytes_per_s, "B/s"), Rate(device.bf16_flop_per_s, "FLOP/s"),
                    Rate(device.fp32_flop_per_s, "FLOP/s"), Rate(device.link_bytes_per_s, "B/s"),
                    Join(gpu.aliases, " "), gpu.unusable});
    }
    std::fputs(table.Text().c_str(), stdout);
    std::puts(
        "\nPeaks are dense and as published; link is per direction. No figure here was measured.");
  }

  static void PrintJson(const Catalogue& catalogue) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Name("devices").BeginArray();
    for (const GpuEntry& gpu : catalogue.gpus) {
      const DeviceSpec& device = gpu.device;
      json.BeginObject().Field("name", gpu.name).Name("aliases").BeginArray();
      for (const std::string& alias : gpu.aliases) json.String(alias);
      json.EndArray().Field("memory_gib", GibFromBytes(device.memory_bytes));
      json.Field("memory_bytes_per_s", device.memory_bytes_per_s);
      json.Field("bf16_flop_per_s", device.bf16_flop_per_s);
      json.Field("fp32_flop_per_s", device.fp32_flop_per_s);
      json.Field("link_bytes_per_s", device.link_bytes_per_s);
      json.Field("usable", gpu.unusable.empty()).Field("why_not", gpu.unusable).EndObject();
    }
    std::puts(json.EndArray().EndObject().Take().c_str());
  }

  std::string cluster_;
};

}  // namespace

std::unique_ptr<Command> MakeClusters() { return std::make_unique<Clusters>(); }

}  // namespace foretrain
