// PyTorch's own tool reads the memory snapshots that we write, and we read those that PyTorch makes
// of a training on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/app/commands/small_run.h"
#include "tests/app/torch/torch_peer.h"

namespace foretrain {
namespace {

// Peak of device memory of each rank in bytes.
std::vector<std::int64_t> PeaksIn(const TemporaryFolder& folder, const std::string& store) {
  const ProgramEnd end = RunForetrain(
      folder.path(), "sql " + store +
                         " \"SELECT rank, value FROM v_metric WHERE name = 'peak_device_bytes' AND "
                         "rank >= 0 AND step = -1 AND run_id = (SELECT max(run_id) FROM v_metric) "
                         "ORDER BY rank\" --json");
  EXPECT_EQ(end.code, 0) << end.errors;
  std::vector<std::int64_t> peaks;
  const nlohmann::json answer = LastLine(end.output);
  for (const nlohmann::json& row : answer.at("rows")) {
    peaks.push_back(static_cast<std::int64_t>(row[1].get<double>()));
  }
  return peaks;
}

TEST(SnapshotInTorch, OfATrainingHasItsPeaks) {
  if (TorchPython().empty()) GTEST_SKIP() << kNoTorch;
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 2 ").code, 0);
  const ProgramEnd written = RunForetrain(folder.path(), "export --form snapshot");
  ASSERT_EQ(written.code, 0) << written.errors;
  const nlohmann::json told = SnapshotInTorch(folder.path(), "read memory.pickle");
  EXPECT_EQ(told.at("devices"), 2);
  EXPECT_EQ(told.at("segments"), 2);
  EXPECT_EQ(told.at("entries"), 2);
  EXPECT_EQ(told.at("plot"), true);
  EXPECT_EQ(told.at("peaks").get<std::vector<std::int64_t>>(), PeaksIn(folder, "foretrain.db"));
  const auto live = told.at("live").get<std::vector<std::int64_t>>();
  EXPECT_EQ(told.at("active"), live.at(0) + live.at(1));
}

TEST(SnapshotInTorch, OfPyTorchsOwnTrainingIsImported) {
  if (TorchPython().empty()) GTEST_SKIP() << kNoTorch;
  const TemporaryFolder folder;
  const nlohmann::json told = SnapshotInTorch(folder.path(), "write cpu.pickle");
  const ProgramEnd imported = RunForetrain(folder.path(), "import cpu.pickle --store s.db");
  ASSERT_EQ(imported.code, 0) << imported.errors;
  std::vector<std::int64_t> peaks;
  for (const std::int64_t peak : told.at("peaks")) {
    if (peak > 0) peaks.push_back(peak);
  }
  EXPECT_EQ(PeaksIn(folder, "s.db"), peaks);
  const ProgramEnd analyzed = RunForetrain(folder.path(), "analyze --store s.db");
  EXPECT_THAT(analyzed.output, testing::HasSubstr("optimizer_state"));
  EXPECT_THAT(analyzed.output, testing::HasSubstr("by the stack that allocated"));
}

}  // namespace
}  // namespace foretrain
