// An SQLite VFS whose n-th write, sync or truncation fails, once or from then on, or kills the
// process.
#pragma once

namespace foretrain {

// kKill: SIGKILL before the call.
enum class FaultKind { kFull, kIo, kKill };

// Name of the VFS; registers it at the first call.
const char* FaultVfs();

// Lets functions that name no VFS use this one.
void MakeFaultVfsTheDefault();

// Makes call number `call` fail, counted from 0 and from now; with `sticky` also all later ones.
void ArmFault(int call, bool sticky, FaultKind kind);

// Stops all failures. True if one occurred.
bool DisarmFault();

}  // namespace foretrain
