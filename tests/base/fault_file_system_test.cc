#include "tests/base/fault_file_system.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::AnyOf;
using testing::ElementsAre;

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(FaultFileSystem, BehavesLikeOneWhenNothingFails) {
  FaultFileSystem files;
  EXPECT_FALSE(files.Create("run/a").has_value());
  ASSERT_TRUE(files.CreateDirectories("run/deep").has_value());
  ASSERT_TRUE(WriteFileAtomically(files, "run/a", "text").has_value());
  EXPECT_EQ(ReadFile(files, "run/a", 10).value(), "text");
  EXPECT_FALSE(ReadFile(files, "run/a", 3).has_value());
  EXPECT_THAT(files.List("run").value(), ElementsAre("a", "deep"));
  EXPECT_EQ(files.Stat("run/a")->size_bytes, 4);
  EXPECT_EQ(files.Stat("run")->kind, FileKind::kDirectory);
  EXPECT_FALSE(files.Remove("run").has_value());
  EXPECT_TRUE(files.Remove("run/a").has_value());
  EXPECT_EQ(files.Stat("run/a")->kind, FileKind::kMissing);
}

TEST(FaultFileSystem, FailsTheCallAskedForOnceOrFromThenOn) {
  FaultFileSystem files;
  files.FailAt(1);
  EXPECT_TRUE(files.Stat("a").has_value());
  EXPECT_FALSE(files.fired());
  EXPECT_FALSE(files.Stat("a").has_value());
  EXPECT_TRUE(files.fired());
  EXPECT_TRUE(files.Stat("a").has_value());
  files.FailAt(0, /*sticky=*/true, ErrorCode::kResourceExhausted,
               [](const FileCall& call) { return call.op == FileOp::kCreate; });
  EXPECT_TRUE(files.Stat("a").has_value());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(files.Create("a").error().code, ErrorCode::kResourceExhausted);
  }
}

TEST(FaultFileSystem, KeepsSyncedBytesAndForgetsTheOthers) {
  FaultFileSystem files;
  auto file = files.Create("a");
  ASSERT_TRUE((*file)->Append(Bytes("kept")).has_value());
  ASSERT_TRUE((*file)->Sync().has_value());
  ASSERT_TRUE(files.SyncDirectory(".").has_value());
  ASSERT_TRUE((*file)->Append(Bytes("lost")).has_value());
  EXPECT_EQ(files.Get("a"), "keptlost");
  files.LosePower(PowerLoss::kDropAll, 1);
  EXPECT_EQ(files.Get("a"), "kept");
  EXPECT_FALSE((*file)->Append(Bytes("x")).has_value());
  EXPECT_EQ(files.Get("a"), "kept");
}

TEST(FaultFileSystem, ForgetsNamesOfAFolderThatWasNotSynced) {
  FaultFileSystem files;
  auto file = files.Create("a");
  ASSERT_TRUE((*file)->Append(Bytes("x")).has_value());
  ASSERT_TRUE((*file)->Sync().has_value());
  files.LosePower(PowerLoss::kDropAll, 1);
  EXPECT_FALSE(files.Exists("a"));
}

TEST(FaultFileSystem, MayKeepOrGarbleWhatWasNotSynced) {
  int kept = 0, garbled = 0;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    FaultFileSystem files;
    files.Put("a", std::string(1024, 'o'));
    auto file = files.Create("b");
    ASSERT_TRUE(files.SyncDirectory(".").has_value());
    ASSERT_TRUE((*file)->Append(Bytes(std::string(1024, 'n'))).has_value());
    files.LosePower(PowerLoss::kGarbage, seed);
    const std::string text = files.Get("b");
    kept += text == std::string(1024, 'n') ? 1 : 0;
    garbled += text != std::string(1024, 'n') && !text.empty() ? 1 : 0;
    EXPECT_EQ(files.Get("a"), std::string(1024, 'o'));
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(garbled, 0);
}

// Each call of an atomic write fails in turn, once or permanently. The file is always the old or
// the new one, and the old one if the write failed before the rename.
TEST(WriteFileAtomically, LeavesOldOrNewWhicheverCallFails) {
  for (const bool sticky : {false, true}) {
    int points = 0;
    for (;; ++points) {
      FaultFileSystem files;
      files.Put("model", "old");
      files.FailAt(points, sticky);
      const auto written = WriteFileAtomically(files, "model", "new");
      if (!files.fired()) {
        EXPECT_TRUE(written.has_value());
        break;
      }
      files.FailNever();
      EXPECT_FALSE(written.has_value()) << points;
      EXPECT_THAT(files.Get("model"), AnyOf("old", "new"));
      EXPECT_TRUE(WriteFileAtomically(files, "model", "again").has_value());
      EXPECT_EQ(files.Get("model"), "again");
      // A temporary file is left only if it could not be removed.
      EXPECT_LE(files.List(".").value().size(), sticky ? 2U : 1U) << points;
    }
    EXPECT_EQ(points, 6);  // create, write, sync, close, rename, sync of the folder
  }
}

// Power is lost at every call: the file is the old or the new text, never a mix, and the new one
// once the call has returned.
TEST(WriteFileAtomically, SurvivesALossOfPowerAtEveryCall) {
  for (const PowerLoss loss : {PowerLoss::kDropAll, PowerLoss::kKeepSome, PowerLoss::kGarbage}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      for (int point = 0; point <= 6; ++point) {
        FaultFileSystem files;
        files.Put("model", std::string(2000, 'o'));
        files.FailAt(point, /*sticky=*/true);
        const bool done = WriteFileAtomically(files, "model", std::string(1500, 'n')).has_value();
        files.FailNever();
        files.LosePower(loss, seed);
        const std::string text = files.Get("model");
        EXPECT_EQ(done, point == 6);
        if (done) {
          EXPECT_EQ(text, std::string(1500, 'n'));
        } else {
          EXPECT_THAT(text, AnyOf(std::string(2000, 'o'), std::string(1500, 'n')));
        }
      }
    }
  }
}

}  // namespace
}  // namespace foretrain
