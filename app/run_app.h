// Reads the command line and runs the command it names.
#pragma once

namespace foretrain {

// The process's exit code. Prints help, version and errors; throws nothing.
int RunApp(int argc, char** argv);

}  // namespace foretrain
