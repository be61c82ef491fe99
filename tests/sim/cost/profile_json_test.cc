#include "sim/cost/profile/profile_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/cost/profile/derive_profile.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

DeviceProfile Full() {
  DeviceProfile profile = DeriveProfile(CpuCluster(2, 2));
  profile.machine = "host \"a\"";
  profile.date = "2025-11-20";
  profile.reference = {256, 256, 256, 1.25e-3};
  profile.rates.wake_s = {12.5e-6, Provenance::kMeasured};
  profile.overheads = {{OverheadKind::kLaunch, 2, 1.5e-6, 1e-6, 2e-6, 100}};
  Op gemm = GemmOp(64, 128, 256);
  gemm.trans_a = true;
  gemm.accumulate = true;
  gemm.format = NumberFormat::kFp8;
  AddPoint(profile, Timed(PointOf(gemm, 1, 1, 2), 1.0 / 3));
  AddPoint(profile, Timed(PointOf(AllReduceOp(1000), 4, 2, 4), 1e-4));
  profile.learned = LearnedState{3, "megatron", {"a", "b"}, {0.1, -0.2}, {0.01, 0.5, 0.5, 2}, 0.09};
  return profile;
}

std::string Refusal(const std::string& text) {
  const auto profile = ProfileFromJson(text, "p.json");
  return profile.has_value() ? "accepted" : profile.error().message;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Each constant must have one number of its covariance with every constant.
TEST(ProfileJson, RefusesALearnedStateWithoutItsCovariance) {
  DeviceProfile profile = Full();
  profile.learned->constants.pop_back();
  profile.learned->moves.pop_back();
  profile.learned->covariance = {0.01};
  EXPECT_EQ(Refusal(ProfileToJson(profile)), "accepted");
  const std::string text = ProfileToJson(profile);
  const auto at = text.find("\"covariance\": [");
  ASSERT_NE(at, std::string::npos);
  EXPECT_THAT(Refusal(Replaced(text, "\"covariance\": [", "\"covariance\": [0.5,")),
              AllOf(HasSubstr("constants"), HasSubstr("covariance")));
}

TEST(ProfileJson, ReadsBackWhatItWrites) {
  const DeviceProfile profile = Full();
  const auto again = ProfileFromJson(ProfileToJson(profile), "p.json");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, profile);
  EXPECT_EQ(ProfileToJson(*again), ProfileToJson(profile));
}

TEST(ProfileJson, NamesFileFieldValueAndRemedy) {
  const std::string text = ProfileToJson(Full());
  EXPECT_THAT(Refusal("{"), HasSubstr("p.json"));
  EXPECT_THAT(Refusal(Replaced(text, "\"schema\": 1", "\"schema\": 7")),
              AllOf(HasSubstr("p.json: schema 7"), HasSubstr("calibrate again")));
  EXPECT_THAT(Refusal(Replaced(text, "\"gemm\"", "\"gem\"")),
              AllOf(HasSubstr("points[0].kind"), HasSubstr("gemm")));
  EXPECT_THAT(Refusal(Replaced(text, "\"rows\": 64", "\"rows\": -64")),
              AllOf(HasSubstr("p.json: points[0].rows"), HasSubstr("-64")));
  EXPECT_THAT(Refusal(Replaced(text, "\"samples\": 100", "\"sample\": 100")),
              HasSubstr("overheads[0].sample"));
  EXPECT_THAT(Refusal(Replaced(text, "\"provenance\": \"default\"",
                               "\"unit\": 1, \"provenance\": \"default\"")),
              HasSubstr("unit"));
}

TEST(ProfileJson, ChecksTheProfile) {
  DeviceProfile profile = Full();
  profile.points[0].p90_s = 0.1;
  profile.points[0].p10_s = 0.2;
  EXPECT_THAT(Refusal(ProfileToJson(profile)), HasSubstr("p.json: points[0] (gemm): p90_s 0.1"));
}

}  // namespace
}  // namespace foretrain
