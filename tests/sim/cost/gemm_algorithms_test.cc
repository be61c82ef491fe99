#include "sim/cost/kernels/gemm_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/cost/profile/profile_json.h"

namespace foretrain {
namespace {

GemmAlgorithm Some() {
  GemmAlgorithm some;
  some.rows = 4096, some.cols = 768, some.inner = 3072;
  some.trans_b = some.has_bias = true;
  some.format = some.operands = some.result = NumberFormat::kBf16;
  some.words = {0x1234567890abcdefU, 0, 7, 0xffffffffffffffffU, 0, 0, 0, 1};
  some.seconds = 25e-6, some.library_seconds = 31e-6;
  return some;
}

DeviceProfile ProfileWith(const GemmAlgorithms& algorithms) {
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
  profile.gemm_algorithms = algorithms;
  return profile;
}

// Reads a profile whose text has `from` replaced by `to`.
Result<DeviceProfile> Read(const std::string& from, const std::string& to) {
  std::string text = ProfileToJson(ProfileWith({"cublasLt-130100", {Some()}}));
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << text;
  text.replace(at, from.size(), to);
  return ProfileFromJson(text, "p.json");
}

TEST(GemmAlgorithms, AreReadAsTheyWereWritten) {
  GemmAlgorithm plain;
  plain.rows = plain.cols = plain.inner = 1;
  plain.accumulate = plain.trans_a = true, plain.format = NumberFormat::kTf32;
  GemmAlgorithm slope = plain, sums = plain;
  slope.epilogue = GemmEpilogue::kSlope, slope.has_aux = true;
  sums.has_row_sums = true, sums.row_sums = NumberFormat::kBf16;
  const DeviceProfile profile = ProfileWith({"cublasLt-130100", {Some(), plain, slope, sums}});
  const Result<DeviceProfile> read = ProfileFromJson(ProfileToJson(profile), "p.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, profile);
}

TEST(GemmAlgorithms, AreWrittenAsHexadecimalWords) {
  const std::string text = ProfileToJson(ProfileWith({"cublasLt-130100", {Some()}}));
  EXPECT_THAT(text, testing::HasSubstr("1234567890abcdef000000000000000000000000000000"
                                       "07ffffffffffffffff"));
  EXPECT_THAT(ProfileToJson(ProfileWith({})), testing::Not(testing::HasSubstr("algorithms")));
}

TEST(GemmAlgorithms, AreRefusedWithTheFieldAndWhatToDo) {
  for (const char* const word : {"12345", "1234567890abcdeg", "1234567890ABCDEF"}) {
    const auto read = Read("1234567890abcdef", word);
    ASSERT_FALSE(read.has_value()) << word;
    EXPECT_THAT(read.error().message, testing::HasSubstr("words"));
    EXPECT_THAT(
        read.error().message,
        testing::HasSubstr("must be 128 hexadecimal digits in lower case; calibrate again"));
  }
  EXPECT_THAT(Read("4096", "0").error().message, testing::HasSubstr("rows"));
  EXPECT_THAT(Read("\"bf16\"", "\"bf17\"").error().message, testing::HasSubstr("format"));
}

}  // namespace
}  // namespace foretrain
