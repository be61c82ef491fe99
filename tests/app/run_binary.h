// Runs the built program, or another, as a user would.
#pragma once

#include <string>
#include <vector>

namespace foretrain {

struct ProgramEnd {
  int code = -1;       // exit code; 128 + signal where a signal ended it
  std::string output;  // stdout
  std::string errors;  // stderr
};

// `command` as in a shell's script, in `folder`, with a home of its own there; $FORETRAIN is the
// built program.
ProgramEnd RunCommand(const std::string& folder, const std::string& command);

// The built program with `arguments`, likewise.
ProgramEnd RunForetrain(const std::string& folder, const std::string& arguments);

// The same with NAME=value settings of tests/stop_points.cc, in the executable that holds it.
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
