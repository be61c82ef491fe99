// A folder that is removed with the test that created it.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace foretrain {

class TempFolder {
 public:
  // in_memory: uses a file system in memory, where syncs are free, if there is one.
  explicit TempFolder(bool in_memory = false) {
    static std::atomic<int> count = 0;
    const bool memory = in_memory && std::filesystem::is_directory("/dev/shm");
    path_ = (memory ? "/dev/shm" : std::filesystem::temp_directory_path()) /
            ("foretrain-" + std::to_string(getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace foretrain
