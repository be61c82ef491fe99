// `foretrain train` as a child process of the desktop. Leaves out what its output means
// (ui/view_model/runs/run_model.h).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ui/training_process.h"

namespace foretrain {

// A process whose output goes to files without a name. It may outlive the desktop, and it never
// blocks on a reader. It has its own process group, so that Ctrl-C in the desktop's terminal does
// not reach it. Its standard input is empty.
class ChildRun final : public TrainingProcess {
 public:
  // Starts `program` with `arguments` (without the program's name). The child inherits no open file
  // but its two outputs. Errors: kInvalidArgument, it cannot be executed; kResourceExhausted, no
  // process or file can be made. Each with the system's text.
  static Result<std::unique_ptr<TrainingProcess>> Start(const std::string& program,
                                                        const std::vector<std::string>& arguments);
  ~ChildRun() override;
  ChildRun(const ChildRun&) = delete;
  ChildRun& operator=(const ChildRun&) = delete;

  TrainingNews Poll() override;
  void Stop() override;
  void EndsWithDesktop(bool ends) override { ends_with_desktop_ = ends; }

  pid_t pid() const { return pid_; }

 private:
  struct Stream {
    int file = -1;
    off_t read = 0;  // bytes so far
  };

  ChildRun(pid_t pid, int output, int errors) : pid_(pid), output_{output}, errors_{errors} {}
  static std::string ReadNew(Stream& stream);

  pid_t pid_;
  bool ended_ = false;  // and was waited for
  bool ends_with_desktop_ = false;
  Stream output_, errors_;
};

// The executable of this process. Errors: kUnsupported, the system does not say.
Result<std::string> OwnExecutable();

// For the desktop: starts the executable of this process.
StartTraining StartsOwnExecutable();

}  // namespace foretrain
