#include "base/text.h"

#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/markup.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_THAT(Split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(Split("", ','), ElementsAre(""));
  EXPECT_THAT(Split(",", ','), ElementsAre("", ""));
}

TEST(Text, TrimTakesSpacesFromBothEnds) {
  EXPECT_EQ(Trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
}

TEST(Text, JoinPutsSeparatorsBetween) {
  const std::vector<std::string> parts{"a", "b", "c"};
  EXPECT_EQ(Join(parts, ", "), "a, b, c");
  EXPECT_EQ(Join({}, ", "), "");
}

TEST(ParseInt, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(ParseInt("--tp", "8", 1, 64).value(), 8);
  EXPECT_EQ(
      ParseInt("x", "-9223372036854775808", std::numeric_limits<std::int64_t>::min(), 0).value(),
      std::numeric_limits<std::int64_t>::min());
  for (const char* bad : {"", " 8", "8 ", "8x", "+8", "0x8", "8.0", "9223372036854775808", "--8"}) {
    EXPECT_FALSE(ParseInt("--tp", bad, 0, std::numeric_limits<std::int64_t>::max()).has_value())
        << bad;
  }
}

TEST(ParseInt, NamesTheValueAndTheRange) {
  const auto parsed = ParseInt("--tp", "65", 1, 64);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parsed.error().message, "--tp: \"65\" is not an integer from 1 to 64");
}

TEST(ParseNumber, RefusesWhatIsNotFinite) {
  EXPECT_EQ(ParseNumber("--lr", "3e-4", 0, 1).value(), 3e-4);
  for (const char* bad : {"", "inf", "nan", "1e999", "0x1p3", "1,5", "2"}) {
    EXPECT_FALSE(ParseNumber("--lr", bad, 0, 1).has_value()) << bad;
  }
  EXPECT_THAT(ParseNumber("--lr", "2", 0, 1).error().message, HasSubstr("from 0 to 1"));
}

TEST(NearestName, FindsWhatWasMeant) {
  constexpr std::array<std::string_view, 4> kKnown{"hidden", "num_layers", "micro_batch", "tp"};
  EXPECT_EQ(NearestName("hiden", kKnown), "hidden");
  EXPECT_EQ(NearestName("hidedn", kKnown), "hidden");
  EXPECT_EQ(NearestName("MicroBatch", kKnown), "micro_batch");
  EXPECT_EQ(NearestName("num-layer", kKnown), "num_layers");
  EXPECT_EQ(NearestName("vocabulary", kKnown), std::nullopt);
  EXPECT_EQ(NearestName("pp", kKnown), std::nullopt);  // one of two letters is more than a third
  EXPECT_EQ(NearestName("micro", kKnown), "micro_batch");  // starts with it
  EXPECT_EQ(NearestName("mi", kKnown), std::nullopt);
  constexpr std::array<std::string_view, 3> kZero{"zero_stage_group", "zero_stage", "zeta"};
  EXPECT_EQ(NearestName("zero", kZero), "zero_stage");
  EXPECT_EQ(NearestName("zeto", kZero), "zeta");  // a similar name wins over a prefix
  EXPECT_EQ(NearestName(std::string(100000, 'h'), kKnown), std::nullopt);
  EXPECT_EQ(DidYouMean("hiden", kKnown), ". Did you mean \"hidden\"?");
  EXPECT_EQ(DidYouMean("zzz", kKnown), "");
}

TEST(Printable, ShowsControlBytesAndBrokenUtf8AsHex) {
  EXPECT_EQ(Printable("plain %n%s \xc3\xa9"), "plain %n%s \xc3\xa9");
  EXPECT_EQ(Printable("\x1b[31m\n"), "\\x1b[31m\\x0a");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(Printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // right-to-left override
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

TEST(Printable, ShortensLongText) {
  EXPECT_EQ(Printable(std::string(1000, 'x'), 5), "xxxxx...");
  EXPECT_EQ(Printable("xxxxx", 5), "xxxxx");
  EXPECT_EQ(Printable("\n\n", 5), "\\x0a...");
}

TEST(EscapedMarkup, LeavesNothingThatMarkupMeans) {
  EXPECT_EQ(EscapedMarkup("<a href=\"b\">'c' & d</a>"),
            "&lt;a href=&quot;b&quot;&gt;&#39;c&#39; &amp; d&lt;/a&gt;");
}

TEST(EscapedMarkup, WritesBytesThatXmlForbidsAsText) {
  EXPECT_EQ(EscapedMarkup(std::string_view("a\0b\x1b\xff", 5)), "a\\x00b\\x1b\\xff");
  EXPECT_EQ(EscapedMarkup("é ∑"), "é ∑");
}

}  // namespace
}  // namespace foretrain
