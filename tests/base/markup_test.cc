#include "base/markup.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

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
