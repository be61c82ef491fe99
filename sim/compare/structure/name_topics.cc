#include "sim/compare/structure/name_topics.h"

#include <map>
#include <string>
#include <vector>

#include "base/embedded.h"
#include "base/result.h"
#include "base/text.h"
#include "sim/config/csv.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

struct Row {
  std::string text;
  NameFacts facts;
};

struct Rows {
  std::vector<Row> ops, kernels;
};

// The table as it is built in. Three topics are facts of their own; it has at most 64 others.
Rows ReadRows() {
  constexpr const char* kFile = "sim/compare/structure/name_topics.csv";
  const EmbeddedFile* const file = FindEmbedded(sim_data::Files(), kFile);
  FT_CHECK(file != nullptr);
  const auto table = ParseCsv(file->text, kFile);
  FT_CHECK(table.has_value());
  Rows rows;
  std::map<std::string, int> numbers;
  for (const CsvRow& line : table->rows) {
    const CsvReader cells(*table, line);
    const std::string topic(cells.Text("topic"));
    const std::string_view side = cells.Text("side");
    Row row{.text = std::string(cells.Text("text")), .facts = {}};
    if (topic == "follows") {
      row.facts.follows = true;
    } else if (topic == "backward") {
      row.facts.says_backward = true;
    } else if (topic == "frame") {
      row.facts.is_frame = true;
    } else {
      const int number = numbers.try_emplace(topic, static_cast<int>(numbers.size())).first->second;
      FT_CHECK(number < 64);
      (side == "hint" ? row.facts.hints : row.facts.topics) = std::uint64_t{1} << number;
    }
    (side == "op" ? rows.ops : rows.kernels).push_back(std::move(row));
  }
  return rows;
}

const Rows& BuiltIn() {
  static const Rows rows = ReadRows();
  return rows;
}

NameFacts FactsIn(const std::vector<Row>& rows, std::string_view name) {
  const std::string lower = ToLower(name);
  NameFacts facts;
  for (const Row& row : rows) {
    if (lower.find(row.text) == std::string::npos) continue;
    facts.topics |= row.facts.topics;
    facts.hints |= row.facts.hints;
    facts.follows |= row.facts.follows;
    facts.says_backward |= row.facts.says_backward;
    facts.is_frame |= row.facts.is_frame;
  }
  return facts;
}

}  // namespace

NameFacts FactsOfOp(std::string_view name) { return FactsIn(BuiltIn().ops, name); }

NameFacts FactsOfKernel(std::string_view name) { return FactsIn(BuiltIn().kernels, name); }

}  // namespace foretrain
