// Runs the built program, or another one, as a user would.
#pragma once

#include <string>
#include <vector>

namespace foretrain {

struct ProgramEnd {
  int code = -1;       // exit code; 128 + signal if a signal ended it
  std::string output;  // stdout
  std::string errors;  // stderr
};

// Runs `command` in a shell in `folder`, with a home folder of its own there. $FORETRAIN is the
// built program.
ProgramEnd RunCommand(const std::string& folder, const std::string& command);

// Runs the built program with `arguments`, likewise.
ProgramEnd RunForetrain(const std::string& folder, const std::string& arguments);

// The same with NAME=value settings for tests/stop_points.cc, in the executable that links it.
ProgramEnd RunStoppable(const std::string& folder, const std::string& arguments,
                        const std::vector<std::string>& settings);

// A fresh folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  // Writes a file into it and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;
  // The bytes of a file in it.
  std::string Read(const std::string& name) const;

 private:
  std::string path_;
};

}  // namespace foretrain
