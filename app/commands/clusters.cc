#include <algorithm>
#include <cstdio>

#include "app/cli/flags/plan_flags.h"
#include "app/commands/commands.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/cluster/cluster_json.h"

namespace foretrain {
namespace {

// Lists the catalogue, or prints one cluster with every default filled in. That JSON is valid input
// of --cluster.
class Clusters final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positional("cluster", cluster_,
                         "Show this cluster as JSON: a name, e.g. 64x8xA100-80GB-SXM, or a file as "
                         "--cluster takes it");
    DeclareClusterOptions(arguments, options_);
    DeclareTable(arguments);
    arguments.Footer(
        "A cluster is written NODESxGPUSxGPU, GPUSxGPU or GPU: 64x8xA100-80GB-SXM, 8xh100, h100.\n"
        "Its JSON, edited, works as --cluster FILE.");
  }

  // One cluster is always printed as JSON, because its use is to be edited.
  Result<Exit> Run() override {
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    if (!cluster_.empty()) {
      ClusterFlags flags;
      flags.cluster = cluster_;
      flags.options = options_;
      FT_ASSIGN(const ClusterSpec cluster, flags.Resolve(catalogue));
      std::puts(ToJson(cluster).c_str());
      return Exit::kDone;
    }
    json_ ? PrintJson(catalogue) : PrintTable(catalogue);
    return Exit::kDone;
  }

 private:
  // "-" if the device has no such rate, or none is known.
  static std::string Rate(double value, const char* unit) {
    return value > 0 ? FormatSi(value, unit) : "-";
  }

  // "450 GB/s switch, sums", "300 GB/s pairs", "-": how devices reach each other without PCIe.
  static std::string LinksOf(const DeviceSpec& device) {
    if (device.link_bytes_per_s == 0) return device.peer_access ? "-" : "- (no peer access)";
    std::string text = FormatSi(device.link_bytes_per_s, "B/s");
    if (device.torus_axes > 0) return text + " torus " + std::to_string(device.torus_axes) + "D";
    if (device.link_peer_bytes_per_s > 0) {
      return text + " mesh, " + FormatSi(device.link_peer_bytes_per_s, "B/s") + " a peer";
    }
    text += device.link_devices == 2 ? " pairs" : " switch";
    if (device.link_devices > 2) text += " of " + std::to_string(device.link_devices);
    return device.link_reduces ? text + ", sums" : text;
  }

  // Devices whose rates are not published are marked, and the reason follows the table.
  void PrintTable(const Catalogue& catalogue) const {
    Table table({"name", ">memory", ">bandwidth", ">16 bits", ">fp8", ">fp4", "links", ">PCIe",
                 ">network", "node", "aliases"});
    table.LimitWidth("links", 34);
    table.LimitWidth("aliases", 24);
    table.DropFirst({"node", "aliases", "PCIe", "fp4"});
    table.Wrap("links");
    std::string unusable;
    for (const GpuEntry& gpu : catalogue.gpus) {
      const DeviceSpec& device = gpu.device;
      if (!gpu.unusable.empty()) unusable += "  " + gpu.name + ": " + gpu.unusable + "\n";
      // Older devices have fp16 only.
      const double bf16 = std::max(device.bf16_flop_per_s, device.fp16_flop_per_s);
      const double network = DefaultNetwork(gpu);
      table.AddRow({gpu.unusable.empty() ? gpu.name : gpu.name + " *",
                    FormatBytes(device.memory_bytes), Rate(device.memory_bytes_per_s, "B/s"),
                    Rate(bf16, "FLOP/s"), Rate(device.fp8_flop_per_s, "FLOP/s"),
                    Rate(device.fp4_flop_per_s, "FLOP/s"), LinksOf(device),
                    Rate(device.pcie_bytes_per_s, "B/s"), Rate(network, "B/s"), gpu.node.name,
                    Join(gpu.aliases, " ")});
    }
    Show(table);
    if (csv_) return;
    std::puts(
        "\nPeaks are dense and as published (16 bits: bf16, or fp16 where there is no bf16); rates "
        "of links, "
        "PCIe "
        "and "
        "network are a device's, per direction.\nThe network is that of the node in which the "
        "GPU is usually sold (--wide names it), or 12.5 GB/s;\n--nic says another. No figure here "
        "was measured.");
    if (unusable.empty()) return;
    std::printf(
        "\n* no forecasts until their rates are known, by a cluster file or calibrated:\n%s",
        unusable.c_str());
  }

  // Rates of 0 are unknown or absent.
  static void PrintJson(const Catalogue& catalogue) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Name("devices").BeginArray();
    for (const GpuEntry& gpu : catalogue.gpus) {
      const DeviceSpec& device = gpu.device;
      json.BeginObject().Field("name", gpu.name).Field("aliases", gpu.aliases);
      json.Field("memory_gib", GibFromBytes(device.memory_bytes));
      json.Field("memory_bytes_per_s", device.memory_bytes_per_s);
      json.Field("bf16_flop_per_s", device.bf16_flop_per_s);
      json.Field("fp16_flop_per_s", device.fp16_flop_per_s);
      json.Field("fp32_flop_per_s", device.fp32_flop_per_s);
      json.Field("fp8_flop_per_s", device.fp8_flop_per_s);
      json.Field("fp4_flop_per_s", device.fp4_flop_per_s);
      json.Field("link_bytes_per_s", device.link_bytes_per_s);
      json.Field("network_bytes_per_s", DefaultNetwork(gpu)).Field("node", gpu.node.name);
      json.Field("host_memory_gib", GibFromBytes(DefaultHostMemory(gpu, 1)));
      json.Field("usable", gpu.unusable.empty()).Field("why_not", gpu.unusable).EndObject();
    }
    std::puts(json.EndArray().EndObject().Take().c_str());
  }

  std::string cluster_;
  ClusterOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeClusters() { return std::make_unique<Clusters>(); }

}  // namespace foretrain
