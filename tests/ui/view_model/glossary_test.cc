#include "ui/view_model/glossary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain::ui {
namespace {

TEST(Glossary, DefinesTheNumbersOfTheStrip) {
  for (const char* term : {"MFU", "overlap", "bubble", "idle", "peak memory", "coverage"}) {
    EXPECT_GT(DefinitionOf(term).size(), 20U) << term;
  }
  EXPECT_THAT(DefinitionOf("MFU"), testing::StartsWith("model FLOPs utilisation"));
}

TEST(Glossary, IsEmptyForOtherWords) {
  EXPECT_EQ(DefinitionOf("no such term"), "");
  EXPECT_EQ(DefinitionOf(""), "");
}

}  // namespace
}  // namespace foretrain::ui
