#include "sim/cost/network/network_constants.h"

#include <algorithm>
#include <string_view>

#include "base/embedded.h"
#include "base/result.h"
#include "sim/config/csv.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kWireCount> kWires = {"link", "pcie", "network", "torus"};
constexpr std::array<std::string_view, kPatternCount> kPatterns = {"ring", "tree", "in-network"};
constexpr std::array<std::string_view, kProtocolCount> kProtocols = {"ll", "ll128", "simple"};
constexpr double kMicro = 1e-6;
constexpr double kNone = -1;

// Reads a table that is compiled into the program.
CsvTable Table(std::string_view path) {
  const EmbeddedFile* file = FindEmbedded(sim_data::Files(), path);
  FT_CHECK(file != nullptr);
  auto table = ParseCsv(file->text, path);
  FT_CHECK(table.has_value());
  return *std::move(table);
}

template <std::size_t n>
std::size_t IndexOf(const std::array<std::string_view, n>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  FT_CHECK(found != names.end());
  return static_cast<std::size_t>(found - names.begin());
}

// An empty cell means that the protocol does not exist.
NetworkConstants::PerProtocol<double> ReadProtocols(const CsvReader& row, double unit) {
  NetworkConstants::PerProtocol<double> values{};
  for (std::size_t i = 0; i < kProtocolCount; ++i) {
    const auto number = row.Number(kProtocols[i], 0);
    FT_CHECK(number.has_value());
    values[i] = row.Text(kProtocols[i]).empty() ? kNone : *number * unit;
  }
  return values;
}

// A row gives one quantity for all protocols. Hops that no row mentions stay kNone: the protocol
// does not run on that wire.
void ReadCollectives(NetworkConstants& constants) {
  const CsvTable table = Table("sim/cost/profile/constants/collectives.csv");
  for (auto& of_pattern : constants.hop_s) {
    for (auto& of_wire : of_pattern) of_wire.fill(kNone);
  }
  for (const CsvRow& row : table.rows) {
    const CsvReader reader(table, row);
    const std::string_view quantity = reader.Text("quantity");
    const std::size_t pattern = IndexOf(kPatterns, reader.Text("pattern"));
    if (quantity == "base") {
      constants.base_s[pattern] = ReadProtocols(reader, kMicro);
    } else if (quantity == "share") {
      constants.share[pattern] = ReadProtocols(reader, 1);
    } else {
      constants.hop_s[pattern][IndexOf(kWires, quantity)] = ReadProtocols(reader, kMicro);
    }
  }
}

// Each row sets one constant; an unknown quantity is a bug in the table.
void ReadNetworks(NetworkConstants& constants) {
  const CsvTable table = Table("sim/cost/profile/constants/networks.csv");
  for (const CsvRow& row : table.rows) {
    const CsvReader reader(table, row);
    const std::string_view quantity = reader.Text("quantity");
    const auto value = reader.Number("value", kNone);
    FT_CHECK(value.has_value() && *value >= 0);
    if (quantity == "efficiency") {
      constants.efficiency[IndexOf(kWires, reader.Text("kind"))] = *value;
    } else if (quantity == "link_sums") {
      constants.link_sums = *value;
    } else if (quantity == "messages_at_once") {
      constants.messages_at_once = *value;
    } else if (quantity == "straggler_from") {
      constants.straggler_from = *value;
    } else {
      FT_CHECK(quantity == "straggler_sigma");
      constants.straggler_sigma = *value;
    }
  }
}

// The tables are part of the program, so a bad value is a bug and stops it.
NetworkConstants Read() {
  NetworkConstants constants{};
  ReadCollectives(constants);
  ReadNetworks(constants);
  FT_CHECK(constants.link_sums > 0 && constants.messages_at_once > 0 &&
           constants.straggler_from > 0);
  for (const double efficiency : constants.efficiency) FT_CHECK(efficiency > 0);
  return constants;
}

}  // namespace

// Read on first use; safe from any thread.
const NetworkConstants& Networks() {
  static const NetworkConstants constants = Read();
  return constants;
}

}  // namespace foretrain
