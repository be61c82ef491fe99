// Lets TensorBoard read what `train --tensorboard` writes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"

namespace foretrain {
namespace {

TEST(StepFiles, AreReadByTensorBoard) {
  if (!HasTensorBoard()) GTEST_SKIP() << kNoTensorBoard;
  const TemporaryFolder folder;
  const ProgramEnd end =
      RunForetrain(folder.path(), SmallTraining(folder) +
                                      "--steps 5 --clip 1 --tensorboard a/b --metrics steps.jsonl");
  ASSERT_EQ(end.code, 0) << end.errors;
  const nlohmann::json events = EventsByTensorBoard(folder.path() + "/a/b");
  ASSERT_TRUE(events.is_object());
  std::istringstream lines(folder.Read("steps.jsonl"));
  std::string line;
  std::size_t count = 0;
  for (; std::getline(lines, line); ++count) {
    const nlohmann::json step = nlohmann::json::parse(line);
    for (const auto& [tag, field] :
         {std::pair{"train/loss", "loss"}, std::pair{"train/gradient_norm", "gradient_norm"},
          std::pair{"train/learning_rate", "learning_rate"},
          std::pair{"speed/step_time_s", "step_time_s"},
          std::pair{"speed/predicted_step_time_s", "predicted_step_time_s"},
          std::pair{"speed/tokens_per_s", "tokens_per_s"},
          std::pair{"memory/resident_bytes", "resident_bytes"}}) {
      const nlohmann::json& event = events.at(tag).at(count);
      EXPECT_EQ(event.at(0), step.at("step")) << tag;
      EXPECT_FLOAT_EQ(event.at(1).get<float>(), step.at(field).get<float>()) << tag;
    }
  }
  EXPECT_EQ(count, 5U);
  EXPECT_EQ(events.at("train/loss").size(), 5U);
}

}  // namespace
}  // namespace foretrain
