// Compares the import of a trace by PyTorch's own profiler with an independent reading of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"
#include "traces/store.h"

namespace foretrain {
namespace {

std::map<std::string, std::int64_t> BusyByName(const Timeline& timeline) {
  std::map<std::string, std::int64_t> busy;
  for (const Span& span : timeline.spans) {
    busy[timeline.op_names.at(NameKey(span.op))] += span.end_ns - span.start_ns;
  }
  return busy;
}

TEST(ImportedTorchTrace, HasTheTimesThatItsTextSays) {
  if (TorchPython().empty()) GTEST_SKIP() << kNoTorch;
  const TemporaryFolder folder;
  const nlohmann::json told = ProfileInTorch(folder.path(), "trace.json");
  const ProgramEnd end = RunForetrain(folder.path(), "import trace.json --store s.db --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const auto reader = StoreReader::Open(folder.path() + "/s.db");
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  const auto run = reader->LoadRun(1);
  ASSERT_TRUE(run.has_value()) << run.error().message;

  std::set<std::int32_t> steps;
  for (const StepWindow& window : run->timeline.steps) steps.insert(window.step);
  EXPECT_EQ(std::vector<int>(steps.begin(), steps.end()), told.at("steps").get<std::vector<int>>());
  std::set<std::pair<std::int32_t, OpId>> ops;
  for (const Span& span : run->timeline.spans) ops.insert({span.step, span.op});
  // An operator whose time is all in other operators has no span.
  EXPECT_LE(ops.size(), told.at("operators").get<std::size_t>());
  EXPECT_GT(ops.size(), told.at("operators").get<std::size_t>() * 9 / 10);
  const auto busy = BusyByName(run->timeline);
  for (const auto& [name, self] : told.at("self_ns").items()) {
    const auto found = busy.find(name);
    const std::int64_t ours = found == busy.end() ? 0 : found->second;
    // Children that end a little after their parent are clipped to it.
    EXPECT_NEAR(static_cast<double>(ours), self.get<double>(), 1'000 + 0.001 * self.get<double>())
        << name;
  }
  std::set<Pass> passes;
  std::set<int> blocks;
  for (const Span& span : run->timeline.spans) {
    passes.insert(UnpackId(span.op).pass);
    blocks.insert(UnpackId(span.op).block);
  }
  EXPECT_TRUE(passes.contains(Pass::kForward) && passes.contains(Pass::kBackward) &&
              passes.contains(Pass::kUpdate));
  EXPECT_TRUE(blocks.contains(1) && blocks.contains(2));  // "layer 0" and "layer 1"
  EXPECT_FALSE(run->timeline.memory.empty());
}

}  // namespace
}  // namespace foretrain
