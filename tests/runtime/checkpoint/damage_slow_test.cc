// Damage to the newest checkpoint is noticed before a tensor is used, by file; the one before it
// loads. Slow: each case reads both checkpoints whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
constexpr std::size_t kSector = 512, kPage = 2048;

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

class DamagedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder();
    const auto run = TrainSaved(TinyGpt(), With([](Plan& p) { p.dp = 2, p.zero_stage = 1; }),
                                {.folder = folder_});
    ASSERT_TRUE(run.has_value()) << run.error().message;
    ASSERT_EQ(CheckpointsIn(folder_), (std::vector<std::string>{"step-00000004", "step-00000002"}));
    names_ = files_.List(folder_ + "/step-00000004").value();
    ASSERT_EQ(names_.size(), 5U);  // the manifest, and two files of each rank
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string NewPath(const std::string& name) const { return folder_ + "/step-00000004/" + name; }
  std::string Read(const char* step, const std::string& name) {
    return ReadFile(files_, folder_ + "/" + step + "/" + name, kMaxBytes).value();
  }

  // Gives the file of the newest checkpoint these contents, and expects the one before it.
  void ExpectIsPassedOver(const std::string& name, const std::string& contents,
                          const std::string& what) {
    WriteText(NewPath(name), contents);
    const auto newest = OpenNewest(files_, folder_);
    ASSERT_TRUE(newest.has_value()) << newest.error().message;
    EXPECT_EQ(newest->checkpoint.manifest().step, 2) << name << ", " << what;
    ASSERT_EQ(newest->damaged.size(), 1U) << name << ", " << what;
    EXPECT_NE(newest->damaged[0].find("/step-00000004/"), std::string::npos);
    // A manifest of another checkpoint is noticed by the first index that it does not fit.
    const bool named = newest->damaged[0].find(name) != std::string::npos ||
                       newest->damaged[0].find("manifest.json") != std::string::npos;
    EXPECT_TRUE(named) << newest->damaged[0];
  }

  PosixFileSystem files_;
  std::string folder_;
  std::vector<std::string> names_;
};

TEST_F(DamagedCheckpoint, TornAtEachPageIsPassedOver) {
  std::mt19937_64 random(13);
  int cases = 0;
  for (const std::string& name : names_) {
    const std::string whole = Read("step-00000004", name), old = Read("step-00000002", name);
    for (std::size_t at = 0; at < whole.size(); at += kPage) {
      std::string zeros = whole, older = whole, garbage = whole;
      std::fill(zeros.begin() + static_cast<std::ptrdiff_t>(at), zeros.end(), '\0');
      older.replace(at, std::string::npos, old.substr(std::min(at, old.size())));
      for (std::size_t i = at; i < std::min(at + kSector, garbage.size()); ++i) {
        garbage[i] = static_cast<char>(random());
      }
      for (const auto& [what, contents] :
           {std::pair("cut", whole.substr(0, at)), std::pair("zeros after", zeros),
            std::pair("old bytes after", older), std::pair("a sector of garbage", garbage)}) {
        if (contents == whole) continue;  // both checkpoints have these bytes
        ExpectIsPassedOver(name, contents, what + (" at " + std::to_string(at)));
        if (HasFatalFailure()) return;
        ++cases;
      }
    }
    WriteText(NewPath(name), whole);
  }
  EXPECT_GT(cases, 1000);
  EXPECT_EQ(OpenNewest(files_, folder_)->checkpoint.manifest().step, 4);
}

TEST_F(DamagedCheckpoint, AnyFlippedByteIsNoticed) {
  std::mt19937_64 random(16);
  std::vector<std::string> contents;
  std::vector<std::size_t> ends;
  for (const std::string& name : names_) {
    contents.push_back(Read("step-00000004", name));
    ends.push_back(contents.back().size() + (ends.empty() ? 0 : ends.back()));
  }
  for (int i = 0; i < 10'000; ++i) {
    const std::size_t byte = random() % ends.back();
    const auto file =
        static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), byte) - ends.begin());
    const std::size_t at = byte - (file == 0 ? 0 : ends[file - 1]);
    std::string& text = contents[file];
    // The newline that ends a text carries nothing.
    if (text[at] == '\n' && at + 1 == text.size()) continue;
    const char was = text[at];
    text[at] = static_cast<char>(was ^ static_cast<char>(1 + random() % 255));
    WriteText(NewPath(names_[file]), text);
    auto checkpoint = Checkpoint::Open(files_, folder_ + "/step-00000004");
    EXPECT_FALSE(checkpoint.has_value() && checkpoint->Verify(files_).has_value())
        << names_[file] << " byte " << at;
    text[at] = was;
    WriteText(NewPath(names_[file]), text);
  }
}

}  // namespace
}  // namespace foretrain
