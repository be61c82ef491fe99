#include "sim/cost/kernels/attention_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/cost/profile/profile_json.h"

namespace foretrain {
namespace {

AttentionTime Some() {
  return {.batch = 4,
          .sequence = 2048,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .format = NumberFormat::kFp16,
          .backward = true,
          .own_seconds = 0.75,
          .library_seconds = 0.5};
}

DeviceProfile ProfileWith(const AttentionTimes& times) {
  DeviceProfile profile;
  profile.device = "some";
  for (Figure ProfileRates::*const rate :
       {&ProfileRates::gemm_flop_per_s, &ProfileRates::attention_forward_flop_per_s,
        &ProfileRates::attention_backward_flop_per_s, &ProfileRates::memory_bytes_per_s,
        &ProfileRates::copy_bytes_per_s, &ProfileRates::link_bytes_per_s,
        &ProfileRates::network_bytes_per_s}) {
    (profile.rates.*rate).value = 1e9;
  }
  profile.rates.overlap_slowdown.value = 1;
  profile.attention_times = times;
  return profile;
}

TEST(AttentionTimes, AreReadAsTheyWereWritten) {
  AttentionTime forward = Some();
  forward.backward = false, forward.format = NumberFormat::kBf16;
  const DeviceProfile profile = ProfileWith({"cudnn-91900", {Some(), forward}});
  const Result<DeviceProfile> read = ProfileFromJson(ProfileToJson(profile), "p.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, profile);
}

TEST(AttentionTimes, AreLeftOutOfAFileWhereThereAreNone) {
  EXPECT_THAT(ProfileToJson(ProfileWith({})), testing::Not(testing::HasSubstr("attention_times")));
}

TEST(AttentionTimes, AreRefusedWithFileAndField) {
  const std::pair<const char*, const char*> wrong[] = {
      {"\"pass\": \"backward\"", "\"pass\": \"sideways\""},
      {"\"batch\": 4", "\"batch\": 0"},
      {"\"library_seconds\": 0.5", "\"library_seconds\": 0"},
      {"\"format\": \"fp16\"", "\"format\": \"fp32\""}};
  for (const auto& [from, to] : wrong) {
    std::string text = ProfileToJson(ProfileWith({"cudnn-91900", {Some()}}));
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    text.replace(at, std::string(from).size(), to);
    const Result<DeviceProfile> read = ProfileFromJson(text, "p.json");
    ASSERT_FALSE(read.has_value()) << to;
    EXPECT_THAT(read.error().message, testing::AllOf(testing::HasSubstr("p.json"),
                                                     testing::HasSubstr("attention_times")));
  }
}

// The limit is 980 us instead of 1,000.
TEST(AttentionTimes, TakeTheLibraryWhereItIsTwoPercentFaster) {
  AttentionTime time = Some();
  time.own_seconds = 1000e-6;
  time.library_seconds = 981e-6;
  EXPECT_FALSE(IsLibraryFaster(time));
  time.library_seconds = 979e-6;
  EXPECT_TRUE(IsLibraryFaster(time));
}

}  // namespace
}  // namespace foretrain
