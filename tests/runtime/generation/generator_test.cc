// Logits of the generation's program, against the losses that training computes.
#include "runtime/generation/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "sim/program/compile_generation.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr std::uint64_t kSeed = 5;

std::unique_ptr<Generator> MakeTiny(const ModelSpec& model, std::int64_t window, RunClock& clock) {
  auto generator =
      Generator::Make(model, window, InitialWeights(model, kSeed), CpuDeviceApi(), clock);
  EXPECT_TRUE(generator.has_value()) << generator.error().message;
  return *std::move(generator);
}

std::vector<float> LogitsOf(Generator& generator, const std::vector<std::int32_t>& tokens) {
  const auto logits = generator.Logits(tokens);
  EXPECT_TRUE(logits.has_value()) << logits.error().message;
  return {logits->begin(), logits->end()};
}

// Step c trains on the tokens with c as the target of the last one.
class Candidates final : public BatchSource {
 public:
  explicit Candidates(const std::vector<std::int32_t>& tokens) : tokens_(tokens) {}
  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override {
    std::copy(tokens_.begin(), tokens_.end(), ids.begin());
    if (targets.empty()) return {};
    std::copy(tokens_.begin() + 1, tokens_.end(), targets.begin());
    targets.back() = static_cast<std::int32_t>(request.step);
    return {};
  }

 private:
  const std::vector<std::int32_t>& tokens_;
};

// The losses of a training with learning rate 0, by the candidate for the next token.
std::vector<double> LossesByCandidate(const ModelSpec& model,
                                      const std::vector<std::int32_t>& tokens) {
  Plan plan;
  plan.sequence = static_cast<std::int64_t>(tokens.size());
  plan.global_batch = plan.micro_batch = 1;
  auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  RealClock clock;
  auto executor = *Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                  CpuDeviceApi(), clock, ExecutorOptions());
  EXPECT_TRUE(FillParameters(*executor, InitialWeights(model, kSeed)).has_value());
  Candidates candidates(tokens);
  RecordingSink sink;
  EXPECT_TRUE(executor->Run(model.vocab, candidates, sink).has_value());
  std::vector<double> losses;
  for (const StepScalars& scalars : sink.scalars) losses.push_back(double{*scalars.loss});
  return losses;
}

// A loss is the mean over n tokens, of which one is the candidate's: -logit plus terms that all
// candidates share. So n (loss(0) - loss(c)) = logit(c) - logit(0). A loss of about 5.5 is rounded
// to 2^-22 and summed over n = 6 terms.
TEST(Generator, GivesTheLogitsThatTheLossesOfTrainingImply) {
  const std::vector<std::int32_t> tokens = {72, 101, 108, 108, 111, 32};
  for (const ModelSpec& model : {TinyGpt(), TinyLlama(), TinyExperts()}) {
    SCOPED_TRACE(model.name);
    RealClock clock;
    const auto generator = MakeTiny(model, /*window=*/16, clock);
    const std::vector<float> logits = LogitsOf(*generator, tokens);
    const std::vector<double> losses = LossesByCandidate(model, tokens);
    ASSERT_EQ(logits.size(), losses.size());
    for (std::size_t c = 0; c < losses.size(); ++c) {
      EXPECT_NEAR(double{logits[c]} - double{logits[0]}, 6 * (losses[0] - losses[c]), 2e-5) << c;
    }
    EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(),
              std::min_element(losses.begin(), losses.end()) - losses.begin());
  }
}

TEST(Generator, GivesTheSameLogitsInEveryWindowThatHoldsTheTokens) {
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5};
  const ModelSpec model = TinyGpt();
  RealClock clock;
  const auto narrow = MakeTiny(model, 5, clock), wide = MakeTiny(model, 16, clock);
  const std::vector<float> in_narrow = LogitsOf(*narrow, tokens), in_wide = LogitsOf(*wide, tokens);
  for (std::size_t i = 0; i < in_narrow.size(); ++i) EXPECT_NEAR(in_narrow[i], in_wide[i], 1e-6F);
}

TEST(Generator, UsesTheLastTokensOfAWindow) {
  const ModelSpec model = TinyGpt();
  RealClock clock;
  const auto generator = MakeTiny(model, 4, clock);
  EXPECT_EQ(LogitsOf(*generator, {9, 8, 1, 2, 3, 4}), LogitsOf(*generator, {1, 2, 3, 4}));
  EXPECT_NE(LogitsOf(*generator, {1, 2, 3, 4}), LogitsOf(*generator, {2, 2, 3, 4}));
}

// 256 is one beyond the vocabulary.
TEST(Generator, RefusesTokensOutsideTheVocabulary) {
  RealClock clock;
  const auto generator = MakeTiny(TinyGpt(), 4, clock);
  const auto logits = generator->Logits(std::vector<std::int32_t>{256});
  ASSERT_FALSE(logits.has_value());
  EXPECT_EQ(logits.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(logits.error().message, testing::HasSubstr("token 256 is outside"));
}

TEST(Generator, HoldsParametersAndLogitsAlone) {
  const auto program = CompileGeneration(TinyGpt(), 16);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  for (const Buffer& buffer : program->ranks[0].buffers) {
    EXPECT_NE(buffer.category, Category::kGradients);
    EXPECT_NE(buffer.category, Category::kOptimizerState);
  }
  const RankProgram& rank = program->ranks[0];
  const Buffer& logits = rank.buffers[static_cast<std::size_t>(HostLogitsOf(rank))];
  EXPECT_EQ(logits.bytes, 4 * 16 * 256);
  EXPECT_EQ(logits.space, Space::kPinned);
}

TEST(Generator, RefusesAnEncoder) {
  ModelSpec model = TinyGpt();
  model.causal = false;
  const auto program = CompileGeneration(model, 16);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(program.error().message, testing::HasSubstr("causal false"));
}

TEST(Generator, RefusesAWindowBeyondTheModelsPositions) {
  const auto program = CompileGeneration(TinyGpt(), TinyGpt().max_sequence + 1);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace foretrain
