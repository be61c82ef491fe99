#include "sim/cost/measured/kernel_profile_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::HasSubstr;

// Two anchors of each kind, in one format.
KernelProfile Small() {
  KernelProfile profile;
  profile.device = "H100-80GB-SXM";
  profile.architecture = "hopper";
  profile.machine = {.multiprocessors = 132,
                     .half_flop_per_s = 989e12,
                     .memory_bytes_per_s = 3.35e12,
                     .link_bytes_per_s = 450e9,
                     .linked = true,
                     .link_reduces = true};
  profile.memory_bytes = 80e9;
  profile.products.anchors = {{256, 512, 1024}, {4097, 8192, 1024}};
  auto& product = profile.products.formats[0].emplace();
  for (const ProductShape& anchor : profile.products.anchors) {
    product.field.anchors.push_back(PointOf(anchor));
  }
  product.field.weights = {0.1, -0.2};
  product.error = {.rows = 100, .median = 0.03, .p90 = 0.1};
  profile.attention_anchors = {
      {.batch = 1, .sequence = 256, .heads = 8, .kv_heads = 2, .head_dim = 64, .value_dim = 64}};
  auto& attention = profile.attention_forward.emplace();
  attention.field.anchors = {PointOf(profile.attention_anchors[0])};
  attention.field.weights = {0.05};
  attention.error.rows = 60;
  profile.experts.anchors = {{.tokens = 512, .load = ExpertLoad::kPowerLaw12}};
  auto& experts = profile.experts.formats[3].emplace();
  experts.field.anchors = {PointOf(profile.experts.anchors[0])};
  experts.field.weights = {0};
  experts.error.rows = 60;
  profile.best_products[0] = {0.9, 0.8, 0.7};
  profile.training.emplace().error.rows = 10;
  profile.attention_backward.emplace().error.rows = 5;
  CollectiveFit& reduce = profile.collectives[1].emplace();
  reduce.anchors = {{4096, 2}, {1 << 20, 8}};
  reduce.kernel.field = {.anchors = {PointOf(reduce.anchors[0]), PointOf(reduce.anchors[1])},
                         .weights = {0.2, -0.1},
                         .reach = 8};
  reduce.kernel.error.rows = 20;
  profile.exchange_anchors = {
      {.nodes = 2, .hidden = 7168, .tokens = 512, .topk = 8, .experts = 64}};
  for (auto& part : profile.exchanges) {
    part.emplace().error.rows = 60;
    part->field.anchors = {PointOf(profile.exchange_anchors[0])};
    part->field.weights = {0.3};
  }
  return profile;
}

std::string RefusalOf(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const auto profile = KernelProfileFromJson(text, "h100.json");
  return profile.has_value() ? "accepted" : profile.error().message;
}

TEST(KernelProfileJson, ReadsWhatItWrites) {
  const KernelProfile profile = Small();
  const auto read = KernelProfileFromJson(KernelProfileToJson(profile, "a command"), "h100.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, profile);
}

TEST(KernelProfileJson, ErrorsNameFileAndField) {
  const std::string text = KernelProfileToJson(Small(), "");
  EXPECT_THAT(RefusalOf(text, "\"multiprocessors\":132", "\"multiprocessors\":0"),
              HasSubstr("h100.json: multiprocessors"));
  EXPECT_THAT(RefusalOf(text, "\"weights\":[0.1,-0.2]", "\"weights\":[0.1]"),
              HasSubstr("weights: must have one number for each anchor"));
  EXPECT_THAT(RefusalOf(text, "\"n\":[512,8192]", "\"n\":[512]"),
              HasSubstr("n: must be as long as the lists of the other sizes"));
  EXPECT_THAT(RefusalOf(text, "\"format\":\"bfloat16\"", "\"format\":\"int8\""),
              HasSubstr("format: must be bfloat16, fp8, fp8_block or nvfp4"));
  EXPECT_THAT(RefusalOf(text, "\"load\":[2]", "\"load\":[3]"), HasSubstr("load"));
  EXPECT_THAT(RefusalOf(text, "\"fill_depth\"", "\"fill_width\""), HasSubstr("fill_depth"));
  EXPECT_THAT(RefusalOf(text, "\"kind\":\"all_reduce\"", "\"kind\":\"broadcast\""),
              HasSubstr("kind: must be all_gather, all_reduce, alltoall or reduce_scatter"));
  EXPECT_THAT(RefusalOf(text, "\"members\":[2,8]", "\"members\":[2]"),
              HasSubstr("members: must be as long as the lists of the other sizes"));
  EXPECT_THAT(RefusalOf(text, "\"dispatch\"", "\"dispatched\""), HasSubstr("dispatch"));
}

// The source of all rows is the tables of docs/validation.md; each kind has at least the rows that
// its field needs.
TEST(KernelProfileJson, BuiltInProfilesRead) {
  const auto profiles = BuiltInKernelProfiles();
  ASSERT_TRUE(profiles.has_value()) << profiles.error().message;
  for (const char* name : {"A100-80GB-SXM", "H100-80GB-SXM", "B200-180GB-SXM", "GB200-186GB-NVL72",
                           "GB300-288GB-NVL72", "RTXPRO6000-96GB"}) {
    const auto at = std::find_if(profiles->begin(), profiles->end(),
                                 [&](const KernelProfile& p) { return p.device == name; });
    ASSERT_NE(at, profiles->end()) << name;
    ASSERT_TRUE(at->products.formats[0].has_value()) << name;
    EXPECT_GT(at->products.formats[0]->error.rows, 1000) << name;
    EXPECT_TRUE(at->attention_forward.has_value()) << name;
    EXPECT_GT(at->machine.link_bytes_per_s, 0) << name;
    for (const auto& collective : at->collectives) EXPECT_TRUE(collective.has_value()) << name;
  }
}

}  // namespace
}  // namespace foretrain
