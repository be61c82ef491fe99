#include "tests/sim/config/launch/launch_reading.h"

#include <gtest/gtest.h>

#include "base/io/file_system.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

ReadLaunchOptions OptionsOfTests(bool strict) {
  ReadLaunchOptions options;
  options.devices = []() -> Result<std::int64_t> { return 8; };
  options.layers = [](const std::string&) -> Result<std::int64_t> { return 16; };
  options.strict = strict;
  return options;
}

Result<LaunchPart> PartOf(const std::vector<Dialect>& dialects, const std::string& dialect,
                          const std::string& file, const std::string& text) {
  FT_ASSIGN(const Dialect found, FindDialect(dialects, dialect, "--from"));
  FT_ASSIGN(LaunchText read, ReadLaunchText(text, SyntaxFor(found, file), file));
  return LaunchPart{found, std::move(read), file};
}

}  // namespace

std::vector<Dialect> AllDialects() {
  auto dialects = BuiltInDialects();
  EXPECT_TRUE(dialects.has_value()) << dialects.error().message;
  return dialects.value_or(std::vector<Dialect>{});
}

Result<Launch> ReadText(const std::string& dialect, const std::string& file,
                        const std::string& text, bool strict) {
  const std::vector<Dialect> dialects = AllDialects();
  FT_ASSIGN(const LaunchPart part, PartOf(dialects, dialect, file, text));
  return ReadLaunch(std::span(&part, 1), dialects, OptionsOfTests(strict));
}

Result<Launch> ReadLaunchFile(const std::string& dialect, const std::string& path) {
  const std::vector<Dialect> dialects = AllDialects();
  const std::string folder = "tests/data/launch/" + path.substr(0, path.find('/') + 1);
  PosixFileSystem files;
  std::vector<LaunchPart> parts;
  FT_ASSIGN(const std::string text,
            ReadFile(files, SourcePath("tests/data/launch/" + path), std::int64_t{1} << 20));
  FT_ASSIGN(LaunchPart first, PartOf(dialects, dialect, path, text));
  parts.push_back(std::move(first));
  for (std::size_t i = 0; i < parts.size() && i < 8; ++i) {
    for (const LaunchFileName& named :
         FilesNamedIn(parts[i].dialect, parts[i].text, parts[i].file)) {
      FT_ASSIGN(const std::string more,
                ReadFile(files, SourcePath(folder + named.path), std::int64_t{1} << 20));
      FT_ASSIGN(LaunchPart part, PartOf(dialects, named.dialect, named.path, more));
      parts.push_back(std::move(part));
    }
  }
  return ReadLaunch(parts, dialects, OptionsOfTests(false));
}

std::string OptionIn(const Launch& launch, std::string_view field) {
  for (const auto& [name, text] : launch.options) {
    if (name == field) return text;
  }
  return "";
}

}  // namespace foretrain
