#include "base/numeric/digits_apart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>

#include "base/units.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

std::vector<std::string> Seconds(const std::vector<double>& seconds) {
  return SecondsApart(seconds);
}

TEST(DigitsApart, AreThreeWhereValuesAreFarApart) {
  EXPECT_THAT(Seconds({8.87, 12.4}), ElementsAre("8.87 s", "12.4 s"));
  EXPECT_THAT(Seconds({1.5e-3, 2e-6, 0.0}), ElementsAre("1.50 ms", "2.00 us", "0 s"));
  EXPECT_THAT(Seconds({}), ElementsAre());
}

TEST(DigitsApart, ShowByHowMuchNearValuesDiffer) {
  // 9 ms apart: a last digit of at most 4.5 ms is one of 1 ms.
  EXPECT_THAT(Seconds({1.003, 1.012}), ElementsAre("1.003 s", "1.012 s"));
  // 10 us apart, so 1 us.
  EXPECT_THAT(Seconds({1.003, 1.00301}), ElementsAre("1.003000 s", "1.003010 s"));
  // Only the near ones get more.
  EXPECT_THAT(Seconds({1.003, 1.012, 250e-6, 7.0}),
              ElementsAre("1.003 s", "1.012 s", "250 us", "7.00 s"));
}

TEST(DigitsApart, AreNoMoreForEqualValues) {
  EXPECT_THAT(Seconds({1.003, 1.003}), ElementsAre("1.00 s", "1.00 s"));
  EXPECT_THAT(Seconds({1.003, 1.003, 1.012}), ElementsAre("1.003 s", "1.003 s", "1.012 s"));
}

TEST(DigitsApart, CountInSecondsFromAHundredSecondsOn) {
  EXPECT_THAT(Seconds({200.0, 300.0}), ElementsAre("3 min 20 s", "5 min 00 s"));
  EXPECT_THAT(Seconds({200.0, 200.5}), ElementsAre("200.0 s", "200.5 s"));
}

TEST(DigitsApart, EndAtTheirMaximumAndAtNanoseconds) {
  const std::array<double, 2> near{1.0, 1.0 + 1e-9};
  EXPECT_THAT(DigitsApart(near), ElementsAre(kMaxDigits, kMaxDigits));
  EXPECT_THAT(SecondsApart(near, 4), ElementsAre("1.000 s", "1.000 s"));
  EXPECT_THAT(Seconds({100.2e-9, 101.4e-9}), ElementsAre("100 ns", "101 ns"));
}

TEST(DigitsApart, TellSizesApartInTheirUnit) {
  const std::array<std::int64_t, 3> bytes{68 * kGiB, 68 * kGiB + 100 * kMiB, 512};
  EXPECT_THAT(BytesApart(bytes), ElementsAre("68.00 GiB", "68.10 GiB", "512 B"));
}

TEST(DigitsApart, TellRatesApart) {
  EXPECT_THAT(SiApart(std::array<double, 2>{3052.0, 3058.0}, ""),
              ElementsAre("3.052 k", "3.058 k"));
  EXPECT_THAT(SiApart(std::array<double, 2>{3052.0, 3.9e6}, "B/s"),
              ElementsAre("3.05 kB/s", "3.90 MB/s"));
}

TEST(DigitsApart, AreSafeForNumbersThatAreNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> odd{nan, inf, 1.0, 1.001};
  EXPECT_THAT(DigitsApart(odd), ElementsAre(3, 3, 5, 5));
}

// Whatever the values, two that differ by a part in 10^5 or more never read alike.
TEST(DigitsApart, NeverLetDifferentValuesReadAlike) {
  std::vector<double> values;
  double value = 1e-6;
  for (int i = 0; i < 400; ++i) {
    values.push_back(value);
    value *= i % 3 == 0 ? 1.00002 : i % 3 == 1 ? 1.004 : 1.11;
  }
  const std::vector<std::string> texts = SecondsApart(values);
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), values.size());
}

}  // namespace
}  // namespace foretrain
