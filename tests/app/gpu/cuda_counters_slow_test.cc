// Counters and errors of GPUs from the driver's library to `analyze`, over the tests' CUDA
// libraries and NVML (tests/plugins/fake_nvml.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "tests/app/gpu/fake_cuda.h"
#include "tests/paths.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr const char* kSentence = "reported XID 79: it has fallen off the PCIe bus; restart";

// The values of a series of a rank.
std::set<double> ValuesOf(const StoredRun& run, const std::string& name, int rank) {
  std::set<double> values;
  for (const Counter& counter : run.counters) {
    if (counter.name == name && counter.rank == rank) values.insert(counter.value);
  }
  return values;
}

// Rank 0's GPU is a Hopper with an XID, rank 1's an older GPU.
TEST(CudaCounters, AreStoredAndAnalyzedAndErrorsAreToldAtOnce) {
  if (!HasFakeCuda()) GTEST_SKIP() << kWithoutFakeCuda;
  const TemporaryFolder folder;
  // Its three steps take long enough for two readings of activity, which are 0.2 s apart.
  const std::string train = SmallCudaTraining(folder) + "--device cuda --dp 2 --json";
  const CudaRun ran = RunOnFakeCuda(folder, "gpus=2", train, "FORETRAIN_FAKE_XID=79");
  ASSERT_EQ(ran.end.code, 0) << ran.end.errors;
  const std::string told = std::string("foretrain: rank 0's GPU 0000:1C:00.0 ") + kSentence;
  const std::size_t at = ran.end.errors.find(told);
  ASSERT_NE(at, std::string::npos) << ran.end.errors;
  EXPECT_EQ(ran.end.errors.find(told, at + 1), std::string::npos);

  const auto reader = StoreReader::Open(folder.path() + "/foretrain.db");
  ASSERT_TRUE(reader.has_value());
  const auto run = reader->LoadRun(2);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_EQ(ValuesOf(*run, "gpu_xid", 0), (std::set<double>{79}));
  EXPECT_EQ(ValuesOf(*run, "gpu_sm_activity", 0), (std::set<double>{0.8}));
  EXPECT_EQ(ValuesOf(*run, "gpu_ecc_corrected", 0), (std::set<double>{2}));
  EXPECT_EQ(ValuesOf(*run, "gpu_busy_share", 0), (std::set<double>{}));
  EXPECT_EQ(ValuesOf(*run, "gpu_sm_activity", 1), (std::set<double>{}));
  EXPECT_EQ(ValuesOf(*run, "gpu_busy_share", 1), (std::set<double>{0.37}));

  const ProgramEnd text = RunForetrain(folder.path(), "analyze --run 2");
  EXPECT_EQ(text.code, 0) << text.errors;
  for (const char* part : {kSentence, "SM active", "80.0 %", "37.0 %", "4.29 GB/s"}) {
    EXPECT_THAT(text.output, HasSubstr(part));
  }
  const ProgramEnd end = RunForetrain(folder.path(), "analyze --run 2 --json");
  const auto json = nlohmann::json::parse(end.output);
  EXPECT_NEAR(json.at("gpus").at(0).at("sm_activity"), 0.8, 1e-9);
  EXPECT_NEAR(json["gpus"][0].at("nvlink_tx_bytes_per_s"), 0x1p32, 1.0);
  EXPECT_NEAR(json["gpus"].at(1).at("busy_share"), 0.37, 1e-9);
  EXPECT_EQ(json.at("gpu_faults").at(0).at("xid"), 79);
  // The page lists the keys.
  std::ifstream file(SourcePath("docs/json.md"));
  std::stringstream page;
  page << file.rdbuf();
  std::set<std::string> keys{"gpus", "gpu_faults"};
  for (const char* list : {"gpus", "gpu_faults"}) {
    for (const auto& object : json[list]) {
      for (const auto& [key, value] : object.items()) keys.insert(key);
    }
  }
  for (const std::string& key : keys) EXPECT_THAT(page.str(), HasSubstr("`" + key + "`"));
}

}  // namespace
}  // namespace foretrain
