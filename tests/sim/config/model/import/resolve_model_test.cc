#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sim/config/catalogue/catalogue.h"
#include "sim/config/model/import/hugging_face.h"
#include "sim/config/model/model_json.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Gpt2Config() {
  std::ifstream file(TestDataPath("configs/gpt2.json"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty());
  return text.str();
}

class ResolveModelTest : public testing::Test {
 protected:
  void SetUp() override {
    auto parsed = BuiltInCatalogue();
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    catalogue_ = *std::move(parsed);
  }
  Catalogue catalogue_;
};

TEST_F(ResolveModelTest, TakesANameAConfigOrAModel) {
  const auto named = ResolveModel("GPT2-XL", "--model", catalogue_);
  ASSERT_TRUE(named.has_value()) << named.error().message;
  EXPECT_EQ(named->model.name, "gpt2-1558m");
  EXPECT_THAT(named->notes, IsEmpty());
  const auto config = ResolveModel(Gpt2Config(), "config.json", catalogue_);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->model.layers, 12);
  EXPECT_THAT(config->notes, ElementsAre(HasSubstr("were ignored: architectures, attn_pdrop")));
  const auto own = ResolveModel(ToJson(named->model), "m.json", catalogue_);
  ASSERT_TRUE(own.has_value()) << own.error().message;
  EXPECT_EQ(own->model, named->model);
}

TEST_F(ResolveModelTest, RefusesWithTheOriginAndTheReason) {
  const auto unknown = ResolveModel("gpt2-xxl", "--model", catalogue_);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message,
              AllOf(HasSubstr("--model: model \"gpt2-xxl\""), HasSubstr("Did you mean")));
  for (ModelEntry& entry : catalogue_.models) {
    if (entry.name == "t5-11b") entry.unsupported = "a part of an encoder-decoder";
  }
  const auto other = ResolveModel("t5-11b", "--model", catalogue_);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(other.error().message, AllOf(HasSubstr("t5-11b"), HasSubstr("encoder-decoder")));
  EXPECT_TRUE(ResolveModel("deepseek-v3", "--model", catalogue_).has_value());
  const auto broken = ResolveModel("{\"layers\": 1", "m.json", catalogue_);
  ASSERT_FALSE(broken.has_value());
  EXPECT_THAT(broken.error().message, HasSubstr("m.json: line 1"));
}

}  // namespace
}  // namespace foretrain
