#include "ui/render/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/ui/render/read_png.h"

namespace foretrain::ui {
namespace {

std::string Temporary(const std::string& name) { return testing::TempDir() + "/" + name; }

TEST(Png, IsReadAsItWasWritten) {
  Image image;
  image.Resize(3, 2);
  image.pixels = {Rgb(0xff0000), Rgb(0x00ff00), Rgb(0x0000ff),
                  Rgb(0x102030), Rgb(0xffffff), Rgb(0x000000)};
  const std::string path = Temporary("roundtrip.png");
  const auto written = WritePng(image, path);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  const auto read = ReadPng(path);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->width, 3);
  EXPECT_EQ(read->pixels, image.pixels);
}

TEST(Png, NamesTheFileThatCannotBeWritten) {
  Image image;
  image.Resize(1, 1);
  const auto written = WritePng(image, Temporary("no/such/folder/a.png"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  EXPECT_THAT(written.error().message, testing::HasSubstr("no/such/folder/a.png"));
}

TEST(Png, RefusesWhatIsNoPicture) {
  EXPECT_EQ(ReadPng(Temporary("missing.png")).error().code, ErrorCode::kInvalidArgument);
  const std::string path = Temporary("text.png");
  std::ofstream(path) << "not a picture";
  EXPECT_EQ(ReadPng(path).error().code, ErrorCode::kCorruptInput);
}

}  // namespace
}  // namespace foretrain::ui
