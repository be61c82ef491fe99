#include "sim/config/launch/expert_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace foretrain {
namespace {

using testing::HasSubstr;

std::string Read(std::string_view text, std::int64_t layers) {
  const auto read = ParseExpertLayers(text, layers);
  if (!read) return read.error().message;
  return std::to_string(read->first_dense_layers) + " " + std::to_string(read->expert_every);
}

TEST(ExpertPattern, ReadsFrequenciesAndLists) {
  EXPECT_EQ(Read("1", 61), "0 1");
  EXPECT_EQ(Read("2", 48), "0 2");
  EXPECT_EQ(Read("([0]*3+[1]*58)", 61), "3 1");  // DeepSeek-V3
  EXPECT_EQ(Read("([0,1]*24)", 48), "0 2");      // Llama 4 Maverick
  EXPECT_EQ(Read("[0, 0, 1, 0, 0, 1]", 6), "0 3");
  EXPECT_EQ(Read("2*([0] + [1]) * 2", 8), "0 2");
  EXPECT_EQ(Read("[1]*4", 4), "0 1");
}

TEST(ExpertPattern, RefusesOtherListsWithAReason) {
  EXPECT_THAT(Read("2", 61), HasSubstr("must divide the 61 layers"));
  EXPECT_THAT(Read("0", 4), HasSubstr("must divide"));
  EXPECT_THAT(Read("[1,0]*2", 4), HasSubstr("neither leading layers"));
  for (const char* text : {"[1]*3", "[2]*4", "[1]*[1]", "([1]*4", "[1 1 1 1]", "[1]*4+", "", "f(4)",
                           "[1]*99999999999999999999", "[1]*65536*65536"}) {
    EXPECT_THAT(Read(text, 4), HasSubstr("a list of 0 and 1 for each of 4 layers")) << text;
  }
  EXPECT_THAT(Read(std::string(100'000, '('), 4), HasSubstr("a list of 0 and 1"));
}

TEST(ExpertPattern, IsWrittenAsItIsRead) {
  ModelSpec model;
  model.layers = 8;
  EXPECT_EQ(ExpertLayersText(model), "");
  model.experts = 4;
  EXPECT_EQ(ExpertLayersText(model), "");
  model.first_dense_layers = 3;
  EXPECT_EQ(ExpertLayersText(model), "([0]*3+[1]*5)");
  EXPECT_EQ(Read(ExpertLayersText(model), 8), "3 1");
  model.first_dense_layers = 0;
  model.expert_every = 2;
  EXPECT_EQ(ExpertLayersText(model), "[0,1,0,1,0,1,0,1]");
  EXPECT_EQ(Read(ExpertLayersText(model), 8), "0 2");
}

}  // namespace
}  // namespace foretrain
