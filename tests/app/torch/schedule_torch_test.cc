// Schedules that are exported load in PyTorch's runtime for schedules, which checks them, adds
// transfers and simulates them without a deadlock. What PyTorch writes is read again.
#include <gtest/gtest.h>

#include <string>

#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"

namespace foretrain {
namespace {

class SchedulesInTorch : public testing::TestWithParam<const char*> {};

TEST_P(SchedulesInTorch, LoadAndComeBackAsTheyWere) {
  if (TorchPython().empty()) GTEST_SKIP() << kNoTorch;
  const TemporaryFolder folder;
  const auto run = [&](const std::string& arguments) {
    const ProgramEnd end = RunForetrain(folder.path(), arguments);
    ASSERT_EQ(end.code, 0) << end.errors;
  };
  run(std::string("schedule export --global-batch 12 --out ours.csv --schedule ") + GetParam());
  const auto loaded = ScheduleInTorch(folder.path(), "ours.csv theirs.csv");
  ASSERT_TRUE(loaded.is_object());
  EXPECT_GT(loaded.at("steps"), 24) << "forward and backward of 12 micro-batches";
  run("schedule import theirs.csv --out again.csv");
  EXPECT_EQ(folder.Read("again.csv"), folder.Read("ours.csv"));
}

// Not DualPipe, whose stages lie on two ranks each, which PyTorch has not.
INSTANTIATE_TEST_SUITE_P(Kinds, SchedulesInTorch,
                         testing::Values("gpipe --pp 4", "1f1b --pp 4", "zb-h1 --pp 4",
                                         "zb-h2 --pp 4", "interleaved --pp 2 --vpp 2",
                                         "zb-v --pp 3", "dualpipe-v --pp 3"),
                         [](const auto& test) {
                           std::string name(test.param);
                           name.resize(name.find(' '));
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace foretrain
