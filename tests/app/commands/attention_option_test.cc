// `foretrain train --attention-kernels` and `--tensor-kernels` on the command line of a machine
// without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

TEST(AttentionOption, RefusesOtherWordsAndADeviceWithoutALibrary) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> wrong[] = {
      {"fastest", "--attention-kernels: \"fastest\" is none of auto, own, cudnn, cudnn-any-order"},
      {"cudnn", "attention by cuDNN: cpu has no library for attention"}};
  for (const auto& [word, message] : wrong) {
    const ProgramEnd end =
        RunForetrain(folder.path(),
                     SmallTraining(folder) + "--steps 1 --attention-kernels " + std::string(word));
    EXPECT_EQ(end.code, 2) << word;
    EXPECT_THAT(end.errors, testing::HasSubstr(message));
  }
  for (const char* const word : {"auto", "own"}) {
    EXPECT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 1 --attention-kernels " +
                                              std::string(word))
                  .code,
              0);
  }
}

TEST(TensorKernelsOption, RefusesADeviceWithoutThem) {
  const TemporaryFolder folder;
  const std::string command = SmallTraining(folder) + "--steps 1 --tensor-kernels ";
  const ProgramEnd end = RunForetrain(folder.path(), command + "wgmma");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors,
              testing::HasSubstr("kernels with wgmma: cpu has none; use --tensor-kernels mma"));
  EXPECT_EQ(RunForetrain(folder.path(), command + "mma").code, 0);
}

}  // namespace
}  // namespace foretrain
