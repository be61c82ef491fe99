#include "sim/validate/kernels/fit_kernels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/cost/measured/kernel_profile_json.h"
#include "sim/validate/kernels/score_kernels.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr KernelMachine kH100 = {
    .multiprocessors = 132, .half_flop_per_s = 989e12, .memory_bytes_per_s = 3.35e12};
constexpr GemmTerms kTruth = {.rate_share = 0.6,
                              .memory_share = 0.7,
                              .launch_s = 4e-6,
                              .fill_depth = 100,
                              .whole_waves = 0.3};

// Products of a device that follows the model with kTruth, 5 % slower where n is 512.
TimingTable Products() {
  std::string text = "device,format,m,n,k,ms\n";
  for (const int m : {256, 512, 1024, 2048, 4096, 8192}) {
    for (const int n : {256, 512, 1024, 4096}) {
      for (const int k : {256, 1024, 4096, 16384}) {
        const double s = GemmModelSeconds(kTruth, kH100, ProductFormat::kBf16, {m, n, k}) *
                         (n == 512 ? 1.05 : 1);
        text += "H100-80GB-SXM,bfloat16," + std::to_string(m) + "," + std::to_string(n) + "," +
                std::to_string(k) + "," + std::to_string(s * 1e3) + "\n";
      }
    }
  }
  auto table = ParseTimingTable(text, "gemm.csv");
  EXPECT_TRUE(table.has_value()) << table.error().message;
  return *std::move(table);
}

struct Sources {
  Catalogue catalogue = BuiltInCatalogue().value();
  std::vector<Architecture> architectures = BuiltInArchitectures().value();
};

TEST(FitKernels, FindsTheConstantsOfADevice) {
  const Sources sources;
  const std::vector<TimingTable> tables = {Products()};
  const auto profiles = FitKernels(tables, sources.catalogue, sources.architectures);
  ASSERT_TRUE(profiles.has_value()) << profiles.error().message;
  ASSERT_EQ(profiles->size(), 1U);
  const KernelProfile& profile = profiles->front();
  EXPECT_EQ(profile.architecture, "hopper");
  ASSERT_TRUE(profile.products.formats[0].has_value());
  const auto& product = *profile.products.formats[0];
  EXPECT_NEAR(product.terms.rate_share, kTruth.rate_share, 0.03);
  EXPECT_EQ(product.error.rows, 96);
  EXPECT_LT(product.error.median, 0.02);
  EXPECT_LT(product.error.p90, 0.05);
}

// The rows' order must not matter, and the written profile is the one that was fitted.
TEST(FitKernels, IsTheSameForAnyOrderOfRowsAndReadsBack) {
  const Sources sources;
  std::vector<TimingTable> tables = {Products()};
  const auto first = FitKernels(tables, sources.catalogue, sources.architectures);
  std::reverse(tables[0].rows.begin(), tables[0].rows.end());
  const auto second = FitKernels(tables, sources.catalogue, sources.architectures);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(*first, *second);
  const auto read = KernelProfileFromJson(KernelProfileToJson(first->front(), ""), "h.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, first->front());
}

constexpr KernelMachine kH100Links = {.link_bytes_per_s = 450e9, .linked = true};
constexpr CollectiveTerms kGathers = {
    .base_s = 5e-6, .hop_s = 0.7e-6, .link_share = 0.8, .ramp = 1.2};

std::string Exact(double value) { return fmt::format("{:.17g}", value); }

TimingTable Parsed(const std::string& text) {
  auto table = ParseTimingTable(text, "t.csv");
  EXPECT_TRUE(table.has_value()) << table.error().message;
  return *std::move(table);
}

// Gathers of an H100 that follows the model with kGathers.
TimingTable Gathers() {
  std::string text = "device,collective,format,gpus,message_size,ms\n";
  for (const std::int64_t members : {2, 4, 8}) {
    for (std::int64_t elements = 256; elements <= 1 << 28; elements *= 4) {
      const double s =
          CollectiveModelSeconds(kGathers, kH100Links, OpKind::kAllGather, {2 * elements, members});
      text += fmt::format("H100-80GB-SXM,all_gather,half,{},{},{}\n", members, elements,
                          Exact(s * 1e3));
    }
  }
  return Parsed(text);
}

constexpr ExchangeTerms kExchanges = {
    .launch_s = 30e-6, .token_s = 2e-7, .unit_bytes_per_s = 25e9, .link_share = 0.7, .overlap = 3};

// Exchanges of an H100 that follows the model with kExchanges; combine takes a fifth longer.
TimingTable Exchanges() {
  std::string text =
      "device,nodes,hidden,tokens,topk,experts,dispatch_sms,combine_sms,dispatch_us,combine_us\n";
  ExchangeShape shape = {.experts = 256};
  for (shape.hidden = 2048; shape.hidden <= 8192; shape.hidden *= 2) {
    for (shape.tokens = 256; shape.tokens <= 65536; shape.tokens *= 4) {
      for (shape.multiprocessors = 4; shape.multiprocessors <= 24; shape.multiprocessors += 4) {
        shape.topk = shape.tokens % 3 + 4;
        const auto us = [&](ExchangePart part) {
          return 1e6 * ExchangeModelSeconds(kExchanges, kH100Links, part, shape);
        };
        text += fmt::format("H100-80GB-SXM,1,{},{},{},256,{},{},{},{}\n", shape.hidden,
                            shape.tokens, shape.topk, shape.multiprocessors, shape.multiprocessors,
                            Exact(us(ExchangePart::kDispatch)),
                            Exact(1.2 * us(ExchangePart::kCombine)));
      }
    }
  }
  return Parsed(text);
}

TEST(FitKernels, FindsTheConstantsOfCollectivesAndExchanges) {
  const Sources sources;
  const std::vector<TimingTable> tables = {Gathers(), Exchanges()};
  const auto profiles = FitKernels(tables, sources.catalogue, sources.architectures);
  ASSERT_TRUE(profiles.has_value()) << profiles.error().message;
  const KernelProfile& profile = profiles->front();
  EXPECT_EQ(profile.machine.link_bytes_per_s, 450e9);
  EXPECT_TRUE(profile.machine.linked);
  ASSERT_TRUE(profile.collectives[0].has_value());
  EXPECT_FALSE(profile.collectives[1].has_value());
  const auto& gather = profile.collectives[0]->kernel;
  EXPECT_NEAR(gather.terms.link_share, kGathers.link_share, 0.02);
  EXPECT_NEAR(gather.terms.base_s, kGathers.base_s, 0.3e-6);
  EXPECT_LT(gather.error.p90, 0.02);
  ASSERT_TRUE(profile.exchanges[0].has_value() && profile.exchanges[1].has_value());
  EXPECT_EQ(profile.exchanges[0]->error.rows, 90);
  EXPECT_NEAR(profile.exchanges[0]->terms.launch_s, kExchanges.launch_s, 1e-6);
  EXPECT_LT(profile.exchanges[0]->error.p90, 0.03);
  EXPECT_LT(profile.exchanges[1]->error.p90, 0.03);
  const auto read = KernelProfileFromJson(KernelProfileToJson(profile, ""), "h.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, profile);
}

// Both parts are forecast and scored apart; the fitted rows come back.
TEST(ScoreKernels, WritesBothPartsOfAnExchange) {
  const Sources sources;
  const std::vector<TimingTable> tables = {Gathers(), Exchanges()};
  const auto profiles = FitKernels(tables, sources.catalogue, sources.architectures);
  ASSERT_TRUE(profiles.has_value());
  std::vector<std::vector<KernelPrediction>> rows;
  for (const TimingTable& table : tables) {
    rows.push_back(
        PredictKernels(table, *profiles, sources.catalogue, sources.architectures, false));
  }
  for (const KernelScore& score : ScoreKernels(tables, rows)) {
    EXPECT_EQ(score.scored, score.kind == "all_gather" ? 33 : 90) << score.kind;
    EXPECT_LT(score.p90, 0.02) << score.kind;
  }
  EXPECT_THAT(PredictedTable(tables[1], rows[1]),
              HasSubstr("dispatch_us,combine_us,forecast_dispatch_us,forecast_combine_us\n"));
}

// No profile measured A100's links, so the model of fabrics serves; H200 has the links of H100.
TEST(ScoreKernels, ForecastsCollectivesOfOtherDevices) {
  const Sources sources;
  const std::vector<TimingTable> fitted = {Gathers()};
  const auto profiles = FitKernels(fitted, sources.catalogue, sources.architectures);
  ASSERT_TRUE(profiles.has_value());
  const TimingTable table = Parsed(
      "device,collective,format,gpus,message_size,ms\n"
      "H200-141GB-SXM,all_gather,half,8,4194304,\n"
      "A100-80GB-SXM,all_gather,half,8,4194304,\n");
  const auto rows =
      PredictKernels(table, *profiles, sources.catalogue, sources.architectures, false);
  const double h100 =
      CollectiveModelSeconds(kGathers, kH100Links, OpKind::kAllGather, {8 << 20, 8});
  ASSERT_TRUE(rows[0].seconds.has_value() && rows[1].seconds.has_value());
  EXPECT_NEAR(*rows[0].seconds / h100, 1, 0.02);
  EXPECT_GT(*rows[1].seconds, 0);
}

TEST(FitKernels, NamesADeviceThatTheCatalogueLacks) {
  const Sources sources;
  const auto table = ParseTimingTable("device,format,m,n,k,ms\nH900,bfloat16,1,1,1,1\n", "t.csv");
  const std::vector<TimingTable> tables = {*table};
  const auto profiles = FitKernels(tables, sources.catalogue, sources.architectures);
  ASSERT_FALSE(profiles.has_value());
  EXPECT_THAT(profiles.error().message, HasSubstr("H900"));
}

TEST(FitKernels, NeedsAMeasuredRow) {
  const Sources sources;
  const auto profiles = FitKernels({}, sources.catalogue, sources.architectures);
  ASSERT_FALSE(profiles.has_value());
  EXPECT_THAT(profiles.error().message, HasSubstr("no measured row"));
}

// H100's profile forecasts H200, whose multiprocessors and peak are the same; left out, H100 has
// no other profile.
TEST(ScoreKernels, ForecastsWithAndWithoutTheDevice) {
  const Sources sources;
  const std::vector<TimingTable> fitted = {Products()};
  const auto profiles = FitKernels(fitted, sources.catalogue, sources.architectures);
  ASSERT_TRUE(profiles.has_value());
  const auto table = ParseTimingTable(
      "device,format,m,n,k,ms\n"
      "H100-80GB-SXM,bfloat16,4096,4096,4096,0.5\n"
      "H200-141GB-SXM,bfloat16,4096,4096,4096,\n"
      "H900,bfloat16,4096,4096,4096,1\n"
      "H100-80GB-SXM,int8,4096,4096,4096,1\n",
      "t.csv");
  ASSERT_TRUE(table.has_value());
  const auto rows =
      PredictKernels(*table, *profiles, sources.catalogue, sources.architectures, false);
  ASSERT_TRUE(rows[0].seconds.has_value() && rows[1].seconds.has_value());
  EXPECT_NEAR(*rows[1].seconds / *rows[0].seconds, 1, 0.02);
  EXPECT_THAT(rows[2].reason, HasSubstr("H900"));
  EXPECT_EQ(rows[3].reason, "no model of the format int8");
  const auto without =
      PredictKernels(*table, *profiles, sources.catalogue, sources.architectures, true);
  EXPECT_FALSE(without[0].seconds.has_value());
  EXPECT_EQ(without[0].reason, "no profile measured gemm bfloat16");
  const std::string text = PredictedTable(*table, rows);
  EXPECT_THAT(text, HasSubstr("device,format,m,n,k,ms,forecast_ms\n"));
  EXPECT_THAT(text, HasSubstr("H900,bfloat16,4096,4096,4096,1,\n"));
}

// ln(2), ln(1), ln(1/2): median of |ln| 0.693, bias 0.
TEST(ScoreKernels, TakesMediansByDevice) {
  const auto table = ParseTimingTable(
      "device,format,m,n,k,ms\na,fp8,1,1,1,1\na,fp8,1,1,1,1\na,fp8,1,1,1,1\nb,fp8,1,1,1,\n",
      "t.csv");
  ASSERT_TRUE(table.has_value());
  const std::vector<TimingTable> tables = {*table};
  const std::vector<std::vector<KernelPrediction>> predictions = {
      {{2e-3, ""}, {1e-3, ""}, {0.5e-3, ""}, {1e-3, ""}}};
  const std::vector<KernelScore> scores = ScoreKernels(tables, predictions);
  ASSERT_EQ(scores.size(), 3U);  // a, b, all
  EXPECT_EQ(scores[0].scored, 3);
  EXPECT_NEAR(scores[0].median, std::log(2.0), 1e-9);
  EXPECT_NEAR(scores[0].bias, 0, 1e-9);
  EXPECT_EQ(scores[1].forecast, 1);
  EXPECT_EQ(scores[1].scored, 0);
  EXPECT_EQ(scores[2].device, "");
  EXPECT_EQ(scores[2].rows, 4);
}

}  // namespace
}  // namespace foretrain
