#include "base/io/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

class PosixFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "foretrain_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  PosixFileSystem files_;
};

TEST_F(PosixFiles, ReadsBackWhatWasWritten) {
  auto file = files_.Create(Path("a"));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_TRUE((*file)->Append(Bytes("one ")).has_value());
  EXPECT_TRUE((*file)->Append(Bytes("two")).has_value());
  EXPECT_TRUE((*file)->WriteAt(9, Bytes("!")).has_value());
  EXPECT_TRUE((*file)->Sync().has_value());
  EXPECT_TRUE((*file)->Close().has_value());
  EXPECT_EQ(ReadFile(files_, Path("a"), 10).value(), std::string("one two\0\0!", 10));

  const auto reader = files_.Open(Path("a"));
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ((*reader)->size_bytes(), 10);
  std::array<std::byte, 5> out{};
  EXPECT_EQ((*reader)->ReadAt(4, out).value(), 5);
  EXPECT_EQ((*reader)->ReadAt(8, out).value(), 2);
  EXPECT_EQ((*reader)->ReadAt(100, out).value(), 0);
}

TEST_F(PosixFiles, ListsRenamesAndRemoves) {
  EXPECT_TRUE(files_.CreateDirectories(Path("x/y/z")).has_value());
  EXPECT_TRUE(files_.CreateDirectories(Path("x/y/z")).has_value());
  EXPECT_TRUE(WriteFileAtomically(files_, Path("x/b"), "b").has_value());
  EXPECT_TRUE(WriteFileAtomically(files_, Path("x/a"), "a").has_value());
  EXPECT_THAT(files_.List(Path("x")).value(), ElementsAre("a", "b", "y"));
  EXPECT_TRUE(files_.Rename(Path("x/a"), Path("x/b")).has_value());
  EXPECT_EQ(ReadFile(files_, Path("x/b"), 100).value(), "a");
  EXPECT_TRUE(files_.Remove(Path("x/b")).has_value());
  EXPECT_FALSE(files_.Remove(Path("x/b")).has_value());
  EXPECT_TRUE(files_.SyncDirectory(Path("x")).has_value());
  EXPECT_EQ(files_.Stat(Path("x/b")).value().kind, FileKind::kMissing);
  EXPECT_EQ(files_.Stat(Path("x/y")).value().kind, FileKind::kDirectory);
}

TEST_F(PosixFiles, RefusesInputsThatAreNoRegularFiles) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  for (const std::string& path :
       {Path("fifo"), folder_, std::string("/dev/zero"), Path("missing")}) {
    const auto text = ReadFile(files_, path, 100);
    ASSERT_FALSE(text.has_value()) << path;
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(text.error().message, HasSubstr(path));
  }
}

TEST_F(PosixFiles, PutsNoFileInPlaceOfADeviceOrFifo) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  const auto written = WriteFileAtomically(files_, Path("fifo"), "text");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(written.error().message, HasSubstr("is not a regular file"));
  EXPECT_EQ(files_.Stat(Path("fifo")).value().kind, FileKind::kOther);
  EXPECT_THAT(files_.List(folder_).value(), ElementsAre("fifo"));  // no temporary file is left
}

TEST_F(PosixFiles, ReplacesWhatALinkNamesAndKeepsTheLink) {
  ASSERT_TRUE(WriteFileAtomically(files_, Path("file"), "old").has_value());
  ASSERT_EQ(symlink("file", Path("link").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(files_, Path("link"), "new").has_value());
  EXPECT_EQ(ReadFile(files_, Path("file"), 100).value(), "new");
  std::array<char, 8> to{};
  EXPECT_EQ(readlink(Path("link").c_str(), to.data(), to.size()), 4);
}

// Another user may have put a link there, to have its target emptied.
TEST_F(PosixFiles, CreatesNothingUnderATakenName) {
  ASSERT_TRUE(WriteFileAtomically(files_, Path("file"), "old").has_value());
  ASSERT_EQ(symlink("file", Path("link").c_str()), 0);
  ASSERT_EQ(symlink("missing", Path("dangling").c_str()), 0);
  for (const char* name : {"file", "link", "dangling"}) {
    const auto created = files_.Create(Path(name));
    ASSERT_FALSE(created.has_value()) << name;
    EXPECT_THAT(created.error().message, HasSubstr("File exists"));
  }
  EXPECT_EQ(ReadFile(files_, Path("file"), 100).value(), "old");
  EXPECT_EQ(files_.Stat(Path("missing")).value().kind, FileKind::kMissing);
}

// Links under the names that a temporary file could have are not followed.
TEST_F(PosixFiles, WritesBesideALinkThatBarsTheOldTemporaryName) {
  ASSERT_TRUE(WriteFileAtomically(files_, Path("victim"), "kept").has_value());
  ASSERT_EQ(symlink("victim", Path("file.tmp").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(files_, Path("file"), "new").has_value());
  EXPECT_EQ(ReadFile(files_, Path("victim"), 100).value(), "kept");
  EXPECT_EQ(ReadFile(files_, Path("file"), 100).value(), "new");
}

TEST_F(PosixFiles, RefusesALargeFileBeforeReadingIt) {
  ASSERT_TRUE(files_.Create(Path("sparse")).has_value());
  ASSERT_EQ(truncate(Path("sparse").c_str(), kTiB), 0);
  const auto text = ReadFile(files_, Path("sparse"), kMiB);
  ASSERT_FALSE(text.has_value());
  EXPECT_THAT(text.error().message, HasSubstr("1.00 TiB"));
  EXPECT_THAT(text.error().message, HasSubstr("1.00 MiB"));
}

// Files are read, not mapped: one that is cut meanwhile ends there and raises no SIGBUS.
TEST_F(PosixFiles, ReadsAFileThatIsCutMeanwhileAsFarAsItGoes) {
  ASSERT_TRUE(WriteFileAtomically(files_, Path("a"), std::string(3 * kMiB, 'a')).has_value());
  const auto reader = files_.Open(Path("a"));
  ASSERT_TRUE(reader.has_value());
  ASSERT_EQ(truncate(Path("a").c_str(), kMiB + 7), 0);
  std::vector<std::byte> out(kMiB);
  EXPECT_EQ((*reader)->ReadAt(0, out).value(), kMiB);
  EXPECT_EQ((*reader)->ReadAt(kMiB, out).value(), 7);
  EXPECT_EQ((*reader)->ReadAt(2 * kMiB, out).value(), 0);
  const auto unchanged = (*reader)->CheckUnchanged();
  ASSERT_FALSE(unchanged.has_value());
  EXPECT_THAT(unchanged.error().message, HasSubstr(Path("a")));
}

TEST_F(PosixFiles, ReadsFilesWhoseSizeIsNotKnown) {
  EXPECT_THAT(ReadFile(files_, "/proc/self/status", kMiB).value(), HasSubstr("Pid:"));
  EXPECT_FALSE(ReadFile(files_, "/proc/self/status", 10).has_value());
}

TEST_F(PosixFiles, NamesPathAndReasonWhenAWriteFails) {
  const auto created = files_.Create(Path("no/such/folder"));
  ASSERT_FALSE(created.has_value());
  EXPECT_EQ(created.error().code, ErrorCode::kIo);
  EXPECT_THAT(created.error().message, HasSubstr("No such file or directory"));
  if (access("/dev/full", W_OK) == 0) {
    EXPECT_FALSE(files_.Create("/dev/full").has_value());  // a device
  }
}

TEST(ParentFolder, IsWhatTheNameLiesIn) {
  EXPECT_EQ(ParentFolder("a/b"), "a");
  EXPECT_EQ(ParentFolder("a/b/"), "a");
  EXPECT_EQ(ParentFolder("a//b"), "a");
  EXPECT_EQ(ParentFolder("b"), ".");
  EXPECT_EQ(ParentFolder("/b"), "/");
  EXPECT_EQ(ParentFolder("/"), "/");
  EXPECT_EQ(ParentFolder(""), ".");
}

}  // namespace
}  // namespace foretrain
