#include "base/units.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::HasSubstr;

TEST(Units, ConvertsNanosecondsBothWays) {
  EXPECT_EQ(SecondsFromNs(1'500'000'000), 1.5);
  EXPECT_EQ(NsFromSeconds(1.5), 1'500'000'000);
  EXPECT_EQ(NsFromSeconds(-1.6e-9), -2);
  EXPECT_EQ(NsFromSeconds(1e300), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(NsFromSeconds(-1e300), std::numeric_limits<std::int64_t>::min());
}

TEST(ParseBytes, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(ParseBytes("m", "72GiB").value(), 72 * (std::int64_t{1} << 30));
  EXPECT_EQ(ParseBytes("m", "1.5GB").value(), 1'500'000'000);
  EXPECT_EQ(ParseBytes("m", "1.1 GB").value(), 1'100'000'000);
  EXPECT_EQ(ParseBytes("m", " 512 MiB ").value(), 536'870'912);
  EXPECT_EQ(ParseBytes("m", "4096").value(), 4096);
  EXPECT_EQ(ParseBytes("m", "4096B").value(), 4096);
  EXPECT_EQ(ParseBytes("m", "2kb").value(), 2000);
  EXPECT_EQ(ParseBytes("m", "0.5KiB").value(), 512);
  EXPECT_EQ(ParseBytes("m", "64PiB").value(), std::int64_t{1} << 56);
}

TEST(ParseBytes, RefusesWhatCouldMeanTwoThingsAndSaysWhatToWrite) {
  for (const char* bad : {"", "GiB", "-1GiB", "72G", "72Gb", "72 giga", "1e3", "nan", "inf",
                          "65PiB", "64.5PiB", "1GiB1", "99999999999999999999GiB", "0x10"}) {
    const auto parsed = ParseBytes("--max-memory", bad);
    ASSERT_FALSE(parsed.has_value()) << bad;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("--max-memory")) << bad;
  }
  EXPECT_THAT(ParseBytes("x", "72G").error().message, HasSubstr("as in 72GiB"));
}

TEST(ParseSeconds, KnowsUnitsFromNanosecondsToDays) {
  EXPECT_EQ(ParseSeconds("t", "1.5ms").value(), 1.5e-3);
  EXPECT_EQ(ParseSeconds("t", "3ms").value(), 0.003);
  EXPECT_EQ(ParseSeconds("t", "20us").value(), 20e-6);
  EXPECT_EQ(ParseSeconds("t", "7ns").value(), 7e-9);
  EXPECT_EQ(ParseSeconds("t", "2").value(), 2);
  EXPECT_EQ(ParseSeconds("t", "2min").value(), 120);
  EXPECT_EQ(ParseSeconds("t", "1h").value(), 3600);
  EXPECT_FALSE(ParseSeconds("t", "1 m").has_value());
  EXPECT_FALSE(ParseSeconds("t", "-1s").has_value());
  EXPECT_FALSE(ParseSeconds("t", "20000d").has_value());
}

TEST(ParseBytesPerSecond, TellsBitsFromBytes) {
  EXPECT_EQ(ParseBytesPerSecond("n", "400Gb").value(), 50e9);
  EXPECT_EQ(ParseBytesPerSecond("n", "400Gb/s").value(), 50e9);
  EXPECT_EQ(ParseBytesPerSecond("n", "100Gbps").value(), 12.5e9);
  EXPECT_EQ(ParseBytesPerSecond("n", "50GB/s").value(), 50e9);
  EXPECT_EQ(ParseBytesPerSecond("n", "1GiB/s").value(), 1073741824.0);
  for (const char* bad : {"400", "400GB", "0Gb", "x", "400 /s", "10000000Tb"}) {  // 1.25e18 B/s
    EXPECT_FALSE(ParseBytesPerSecond("n", bad).has_value()) << bad;
  }
}

TEST(FormatBytes, ShowsThreeDigitsInBinaryUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(3 * kGiB / 2), "1.50 GiB");
  EXPECT_EQ(FormatBytes(71 * kGiB + 3 * kGiB / 10), "71.3 GiB");
  EXPECT_EQ(FormatBytes(640 * kGiB), "640 GiB");
  EXPECT_EQ(FormatBytes(kGiB - 1), "1.00 GiB");
  EXPECT_EQ(FormatBytes(-2 * kMiB), "-2.00 MiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<std::int64_t>::max()), "8.00 EiB");
}

TEST(FormatSeconds, ShowsThreeDigitsAndThenMinutes) {
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(2.054), "2.05 s");
  EXPECT_EQ(FormatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(FormatSeconds(0.9999e-3), "1.00 ms");
  EXPECT_EQ(FormatSeconds(4.5e-6), "4.50 us");
  EXPECT_EQ(FormatSeconds(12e-9), "12.0 ns");
  EXPECT_EQ(FormatSeconds(100), "1 min 40 s");
  EXPECT_EQ(FormatSeconds(3599.4), "59 min 59 s");
  EXPECT_EQ(FormatSeconds(7500), "2 h 05 min");
  EXPECT_EQ(FormatSeconds(7199), "2 h 00 min");
  EXPECT_EQ(FormatSeconds(-0.5), "-500 ms");
}

TEST(FormatSi, PutsThePrefixBeforeTheUnit) {
  EXPECT_EQ(FormatSi(3.12e14, "FLOP/s"), "312 TFLOP/s");
  EXPECT_EQ(FormatSi(50e9, "B/s"), "50.0 GB/s");
  EXPECT_EQ(FormatSi(999.6, "tokens/s"), "1.00 ktokens/s");
  EXPECT_EQ(FormatSi(1500, ""), "1.50 k");
  EXPECT_EQ(FormatSi(12, ""), "12.0");
  EXPECT_EQ(FormatPercent(0.4131), "41.3 %");
}

}  // namespace
}  // namespace foretrain
