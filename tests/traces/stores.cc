#include "tests/traces/stores.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <tuple>

namespace foretrain {
namespace {

using Handle = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

Handle OpenRaw(const std::string& path) {
  sqlite3* raw = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
  return Handle(raw, sqlite3_close);
}

auto Fields(const MemorySample& sample) {
  return std::tie(sample.time_ns, sample.bytes, sample.rank, sample.category, sample.space);
}

auto Fields(const StepWindow& window) {
  return std::tie(window.start_ns, window.end_ns, window.step, window.rank);
}

template <class Row>
bool SameRows(const std::vector<Row>& a, const std::vector<Row>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Row& x, const Row& y) { return Fields(x) == Fields(y); });
}

bool SameSpans(const std::vector<Span>& a, const std::vector<Span>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Span)) == 0);
}

}  // namespace

RunId StoreTimeline(const std::string& path, const Timeline& timeline, RunSetup setup) {
  setup.world = timeline.world;
  auto store = Store::Open(path);
  if (!store.has_value()) {
    ADD_FAILURE() << store.error().message;
    return 0;
  }
  auto run = (*store)->BeginRun(setup);
  if (!run.has_value()) {
    ADD_FAILURE() << run.error().message;
    return 0;
  }
  for (const Result<void>& result :
       {(*run)->AddTimeline(timeline), (*run)->Finish(RunStatus::kFinished), (*store)->Close()}) {
    if (!result.has_value()) ADD_FAILURE() << result.error().message;
  }
  return (*run)->id();
}

Result<StoredRun> LoadFrom(const std::string& path, RunId id, const LoadOptions& options) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(path));
  return reader.LoadRun(id, options);
}

bool SameTimeline(const Timeline& a, const Timeline& b) {
  return a.world == b.world && SameSpans(a.spans, b.spans) && SameRows(a.memory, b.memory) &&
         SameRows(a.steps, b.steps) && a.op_names == b.op_names;
}

void ExpectSameTimeline(const Timeline& a, const Timeline& b) {
  EXPECT_EQ(a.world, b.world);
  EXPECT_EQ(a.spans.size(), b.spans.size());
  EXPECT_TRUE(SameSpans(a.spans, b.spans));
  EXPECT_TRUE(SameRows(a.memory, b.memory));
  EXPECT_TRUE(SameRows(a.steps, b.steps));
  EXPECT_EQ(a.op_names, b.op_names);
}

std::vector<std::string> Query(const std::string& path, const std::string& sql) {
  const Handle database = OpenRaw(path);
  std::vector<std::string> rows;
  const auto add = [](void* out, int columns, char** values, char**) {
    std::string row;
    for (int i = 0; i < columns; ++i) {
      row += (i == 0 ? "" : "|") + std::string(values[i] == nullptr ? "NULL" : values[i]);
    }
    static_cast<std::vector<std::string>*>(out)->push_back(row);
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(database.get(), sql.c_str(), add, &rows, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database.get());
  return rows;
}

void Damage(const std::string& path, const std::string& sql) {
  const Handle database = OpenRaw(path);
  ASSERT_EQ(sqlite3_exec(database.get(), sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database.get());
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace foretrain
