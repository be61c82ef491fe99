#include "app/report/gpu_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json/json.h"

namespace foretrain {
namespace {

// Means of two ranks: one GPU with GPM counters, one with utilization alone.
std::vector<GpuMean> Means() {
  std::vector<GpuMean> means;
  for (const GpuSeries& series : AllGpuSeries()) {
    if (series.name == "gpu_sm_activity") means.push_back({0, series, 0.831});
    if (series.name == "gpu_nvlink_tx_bytes_per_s") means.push_back({0, series, 2.1e11});
    if (series.name == "gpu_fp32_activity") means.push_back({0, series, 0.12});
    if (series.name == "gpu_busy_share") means.push_back({1, series, 0.99});
  }
  return means;
}

TEST(GpuReport, HasARowForEachRankAndColumnsThatAnyRankHas) {
  const std::string text = GpuMeansText(Means());
  EXPECT_EQ(text,
            "  rank  SM active  GPU busy  NVLink out\n"
            "  -------------------------------------\n"
            "     0     83.1 %         -    210 GB/s\n"
            "     1          -    99.0 %           -\n");
  EXPECT_EQ(GpuMeansText({}), "");
}

// All main series of one rank: 21, in a table of 11 and one of 10. A blank line lies between them.
TEST(GpuReport, BreaksManySeriesIntoTables) {
  std::vector<GpuMean> means;
  for (const GpuSeries& series : AllGpuSeries()) {
    if (series.main) means.push_back({0, series, 0.5});
  }
  ASSERT_EQ(means.size(), 21U);
  const std::string text = GpuMeansText(means);
  const std::size_t blank = text.find("\n\n");
  ASSERT_NE(blank, std::string::npos);
  EXPECT_LT(text.find("PCIe in"), blank);
  EXPECT_GT(text.find("power"), blank);
  EXPECT_EQ(text.find("\n\n", blank + 1), std::string::npos);
}

TEST(GpuReport, WritesAllMeansAndFaultsAsJson) {
  const std::vector<GpuFault> faults = {{GpuFaultKind::kXid, 1, 79, 2, 1'500'000'000},
                                        {GpuFaultKind::kUncorrectedEcc, 1, 0, 4, 0}};
  JsonWriter writer;
  writer.BeginObject();
  WriteGpus(writer, Means(), faults);
  const auto json = nlohmann::json::parse(writer.EndObject().Take());
  ASSERT_EQ(json.at("gpus").size(), 2U);
  EXPECT_EQ(json["gpus"][0]["rank"], 0);
  EXPECT_EQ(json["gpus"][0]["sm_activity"], 0.831);
  EXPECT_EQ(json["gpus"][0]["fp32_activity"], 0.12);
  EXPECT_EQ(json["gpus"][0]["nvlink_tx_bytes_per_s"], 2.1e11);
  EXPECT_FALSE(json["gpus"][1].contains("sm_activity"));
  EXPECT_EQ(json["gpus"][1]["busy_share"], 0.99);
  ASSERT_EQ(json.at("gpu_faults").size(), 2U);
  EXPECT_EQ(json["gpu_faults"][0]["error"], "xid");
  EXPECT_EQ(json["gpu_faults"][0]["xid"], 79);
  EXPECT_EQ(json["gpu_faults"][0]["count"], 2);
  EXPECT_EQ(json["gpu_faults"][0]["first_s"], 1.5);
  EXPECT_EQ(json["gpu_faults"][1]["error"], "uncorrected_ecc");
  EXPECT_FALSE(json["gpu_faults"][1].contains("xid"));
}

TEST(GpuReport, WritesNothingWithoutRecordings) {
  JsonWriter writer;
  writer.BeginObject();
  WriteGpus(writer, {}, {});
  EXPECT_EQ(writer.EndObject().Take(), "{}");
}

}  // namespace
}  // namespace foretrain
