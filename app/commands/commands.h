// One maker for each subcommand; each has its own file in this folder.
#pragma once

#include <memory>

#include "app/cli/command.h"

namespace foretrain {

std::unique_ptr<Command> MakeModels();
std::unique_ptr<Command> MakePresets();
std::unique_ptr<Command> MakeClusters();
std::unique_ptr<Command> MakeDevices();
std::unique_ptr<Command> MakePlan();
std::unique_ptr<Command> MakeSweep();
std::unique_ptr<Command> MakePredict();
std::unique_ptr<Command> MakeSchedule();
std::unique_ptr<Command> MakeCheck();
std::unique_ptr<Command> MakeFit();
std::unique_ptr<Command> MakeTokenize();
std::unique_ptr<Command> MakeTrain();
std::unique_ptr<Command> MakeConvert();
std::unique_ptr<Command> MakeGenerate();
std::unique_ptr<Command> MakeCompare();
std::unique_ptr<Command> MakeAnalyze();
std::unique_ptr<Command> MakeCalibrate();
std::unique_ptr<Command> MakeBench();
std::unique_ptr<Command> MakeExport();
std::unique_ptr<Command> MakeImport();
std::unique_ptr<Command> MakeRuns();
std::unique_ptr<Command> MakeSql();
std::unique_ptr<Command> MakeValidate();
std::unique_ptr<Command> MakeView();
std::unique_ptr<Command> MakeDemo();
std::unique_ptr<Command> MakeCompletion();

}  // namespace foretrain
