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
  std::uint64_t topic = 0;
};

struct Topics {
  std::vector<Row> ops, kernels;
};

// The table as it is built in. It has at most 62 topics beside kFollows and kSaysBackward.
Topics ReadTopics() {
  constexpr const char* kFile = "sim/compare/structure/name_topics.csv";
  const EmbeddedFile* const file = FindEmbedded(sim_data::Files(), kFile);
  FT_CHECK(file != nullptr);
  const auto table = ParseCsv(file->text, kFile);
  FT_CHECK(table.has_value());
  Topics topics;
  std::map<std::string, int> numbers;
  for (const CsvRow& row : table->rows) {
    const CsvReader cells(*table, row);
    const std::string topic(cells.Text("topic"));
    std::uint64_t bit = topic == "follows" ? kFollows : kSaysBackward;
    if (topic != "follows" && topic != "backward") {
      const int number = numbers.try_emplace(topic, static_cast<int>(numbers.size())).first->second;
      FT_CHECK(number < 62);
      bit = std::uint64_t{1} << number;
    }
    auto& side = cells.Text("side") == "op" ? topics.ops : topics.kernels;
    side.push_back({std::string(cells.Text("text")), bit});
  }
  return topics;
}

const Topics& BuiltIn() {
  static const Topics topics = ReadTopics();
  return topics;
}

std::uint64_t TopicsIn(const std::vector<Row>& rows, std::string_view name) {
  const std::string lower = ToLower(name);
  std::uint64_t topics = 0;
  for (const Row& row : rows) {
    if (lower.find(row.text) != std::string::npos) topics |= row.topic;
  }
  return topics;
}

}  // namespace

std::uint64_t TopicsOfOp(std::string_view name) { return TopicsIn(BuiltIn().ops, name); }

std::uint64_t TopicsOfKernel(std::string_view name) { return TopicsIn(BuiltIn().kernels, name); }

}  // namespace foretrain
