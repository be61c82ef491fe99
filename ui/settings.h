// What the desktop keeps between its windows, in one small JSON file. Leaves out where that lies.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"

namespace foretrain {

struct Settings {
  bool light = false;
  double scale = 0.0;  // of text and lines; 0: as the screen's density asks
  int width = 1600;    // of the window, pixels
  int height = 900;
  std::string view = "compare";         // the last one shown
  std::vector<std::string> recent{};    // paths of stores, newest first

  bool operator==(const Settings&) const = default;

  // Puts `path` first; at most kMostRecent are kept.
  void Remember(const std::string& path);
};

inline constexpr std::size_t kMostRecent = 12;

std::string ToJson(const Settings& settings);

// Fields that are not there keep their defaults, unknown ones are passed over.
// Errors: kCorruptInput or kInvalidArgument, no such JSON or a value out of range, with its name.
Result<Settings> SettingsFromJson(std::string_view text, std::string_view source);

class SettingsFile {
 public:
  // `files` must outlive this. `path` empty: nothing is kept.
  SettingsFile(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  // The defaults where there is no file, or where it cannot be read: then `damage` says so.
  Settings Load();
  const std::string& damage() const { return damage_; }

  // Writes atomically, with the folder; a damaged file is kept beside it as PATH.bad first.
  // Errors: kIo, kResourceExhausted.
  Result<void> Save(const Settings& settings);

 private:
  FileSystem& files_;
  std::string path_;
  std::string damage_;
};

}  // namespace foretrain
