// The desktop's settings, which outlive its windows in one small JSON file. Leaves out the file's
// path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

struct Settings {
  bool light = false;
  double scale = 0.0;  // of text and lines; 0: by the screen's density
  int width = 1600;    // of the window, pixels
  int height = 900;
  std::string view = "compare";       // the last one shown
  std::vector<std::string> recent{};  // paths of stores, newest first

  bool operator==(const Settings&) const = default;

  // Puts `path` first; at most kMaxRecent are kept.
  void Remember(const std::string& path);
};

inline constexpr std::size_t kMaxRecent = 12;

std::string ToJson(const Settings& settings);

// Missing fields keep their defaults, unknown ones are skipped. Errors: kCorruptInput, no JSON;
// kInvalidArgument, a value out of range, with the name of its field.
Result<Settings> SettingsFromJson(std::string_view text, std::string_view source);

class SettingsFile {
 public:
  // `files` must outlive this. If `path` is empty, nothing is saved.
  SettingsFile(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  // The settings in the file; the defaults if there is none, or if it cannot be read. In the latter
  // case damage() says why.
  Settings Load();
  const std::string& damage() const { return damage_; }

  // Writes atomically and makes the folder. A damaged file is renamed to PATH.bad first. Errors:
  // kIo, kResourceExhausted.
  Result<void> Save(const Settings& settings);

 private:
  FileSystem& files_;
  std::string path_;
  std::string damage_;
};

}  // namespace foretrain
