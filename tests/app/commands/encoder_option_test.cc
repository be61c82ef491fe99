// An encoder-decoder on the command line: forecast, search and training, and `--encoder-sequence`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// 512 tokens a sample, of which the encoder reads half unless told.
TEST(EncoderOption, ForecastsAndPlansT5) {
  const TemporaryFolder folder;
  const std::string of = "--model t5-3b --cluster 8xa100-80gb-sxm --global-batch 64 --json ";
  const auto seconds = [&](const std::string& options) {
    const ProgramEnd end = RunForetrain(folder.path(), "predict --dp 8 --zero 1 " + of + options);
    EXPECT_EQ(end.code, 0) << end.errors;
    const auto answer = nlohmann::json::parse(end.output, nullptr, false);
    if (!answer.is_object()) return 0.0;
    EXPECT_EQ(answer.at("parameters").get<double>(), 2'851'598'336.0);
    return answer.at("step_time_s").get<double>();
  };
  const double half = seconds("");
  EXPECT_EQ(seconds("--encoder-sequence 256"), half);
  // A decoder's token passes the head and two attentions.
  EXPECT_LT(seconds("--encoder-sequence 384"), half);
  const ProgramEnd plan = RunForetrain(folder.path(), "plan " + of);
  EXPECT_EQ(plan.code, 0) << plan.errors;
  EXPECT_THAT(plan.output, HasSubstr("\"plans\""));
}

TEST(EncoderOption, IsRefusedWithoutAnEncoderAndBeyondTheSample) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> wrong[] = {
      {"--model gpt2 --encoder-sequence 8", "encoder_sequence 8: the model has no encoder; use 0"},
      {"--model t5-base --encoder-sequence 512", "use at most 511"},
      {"--model t5-base --cp 2", "cp 2 with an encoder-decoder"}};
  for (const auto& [options, message] : wrong) {
    const ProgramEnd end =
        RunForetrain(folder.path(), "predict --cluster 2xa100-80gb-sxm " + std::string(options));
    EXPECT_EQ(end.code, 2) << options;
    EXPECT_THAT(end.errors, HasSubstr(message));
  }
}

// Two ranks, one with the encoder and one with the decoder, lose what one rank loses.
TEST(EncoderOption, TrainsAConfigOfT5OverAPipeline) {
  const TemporaryFolder folder;
  folder.Write("config.json", R"({"model_type": "t5", "num_layers": 2, "num_decoder_layers": 2,
    "d_model": 32, "num_heads": 2, "d_kv": 16, "d_ff": 64, "vocab_size": 256, "n_positions": 64,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20,
    "feed_forward_proj": "gated-gelu", "tie_word_embeddings": true})");
  std::string text;
  for (int i = 0; i < 300; ++i) text += "line " + std::to_string(i * i) + "; ";
  folder.Write("text.txt", text);
  const auto losses = [&](const std::string& options) {
    const ProgramEnd end =
        RunForetrain(folder.path(),
                     "train --json --model config.json --data text.txt --sequence 32 --steps 4 "
                     "--encoder-sequence 20 --global-batch 4 --micro-batch 2 --lr 1e-2 " +
                         options);
    EXPECT_EQ(end.code, 0) << end.errors;
    return LossesOf(end.output);
  };
  const std::vector<double> one = losses("--ranks 1"), two = losses("--ranks 2 --pp 2");
  ASSERT_EQ(one.size(), 4U);
  ASSERT_EQ(two.size(), 4U);
  for (std::size_t step = 0; step < 4; ++step) EXPECT_NEAR(two[step], one[step], 1e-4) << step;
  EXPECT_LT(one.back(), one.front());
}

}  // namespace
}  // namespace foretrain
