#include "ui/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/io/file_system.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SettingsOnDisk : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Put(const std::string& text) const {
    std::filesystem::create_directories(folder_ + "/foretrain");
    std::ofstream(path_) << text;
  }
  static std::string Text(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_ = testing::TempDir() + "/settings_test." + std::to_string(getpid());
  std::string path_ = folder_ + "/foretrain/desktop.json";
  PosixFileSystem files_;
  SettingsFile file_{files_, path_};
};

TEST_F(SettingsOnDisk, AreReadBackAsTheyWereWritten) {
  Settings settings{.light = true, .scale = 1.5, .width = 1280, .height = 720, .view = "memory"};
  settings.recent = {"/a/foretrain.db", "/b/x.db"};
  ASSERT_TRUE(file_.Save(settings).has_value());
  EXPECT_EQ(file_.Load(), settings);
  EXPECT_EQ(file_.damage(), "");
}

TEST_F(SettingsOnDisk, AreTheDefaultsWithoutAFile) {
  EXPECT_EQ(file_.Load(), Settings());
  EXPECT_EQ(file_.damage(), "");
  SettingsFile none(files_, "");
  EXPECT_EQ(none.Load(), Settings());
  EXPECT_TRUE(none.Save({.light = true}).has_value());
}

TEST_F(SettingsOnDisk, KeepADamagedFileBesideTheNextOne) {
  Put("{\"theme\": \"li");
  EXPECT_EQ(file_.Load(), Settings());
  EXPECT_THAT(file_.damage(), HasSubstr("desktop.json"));
  EXPECT_THAT(file_.damage(), HasSubstr(".bad"));
  // The file is not touched before there is something to save.
  EXPECT_EQ(Text(path_), "{\"theme\": \"li");
  ASSERT_TRUE(file_.Save({.light = true}).has_value());
  EXPECT_EQ(Text(path_ + ".bad"), "{\"theme\": \"li");
  EXPECT_TRUE(file_.Load().light);
  EXPECT_EQ(file_.damage(), "");
  // The warning and the copy happen once.
  ASSERT_TRUE(file_.Save({.light = false}).has_value());
  EXPECT_EQ(Text(path_ + ".bad"), "{\"theme\": \"li");
}

TEST_F(SettingsOnDisk, NameTheFieldThatIsWrong) {
  Put("{\"scale\": 40}");
  EXPECT_EQ(file_.Load().scale, 0.0);
  EXPECT_THAT(file_.damage(), HasSubstr("scale"));
  Put("{\"theme\": \"pink\"}");
  file_.Load();
  EXPECT_THAT(file_.damage(), HasSubstr("pink"));
}

TEST_F(SettingsOnDisk, PassOverFieldsOfLaterVersions) {
  Put("{\"theme\": \"light\", \"later\": [1, 2]}");
  EXPECT_TRUE(file_.Load().light);
  EXPECT_EQ(file_.damage(), "");
}

TEST(Settings, RememberTheNewestStoresOnceEach) {
  Settings settings;
  for (const char* path : {"a", "b", "a"}) settings.Remember(path);
  EXPECT_THAT(settings.recent, ElementsAre("a", "b"));
  for (int i = 0; i < 30; ++i) settings.Remember(std::to_string(i));
  EXPECT_EQ(settings.recent.size(), kMaxRecent);
  EXPECT_EQ(settings.recent.front(), "29");
}

}  // namespace
}  // namespace foretrain
