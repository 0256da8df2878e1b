"""What hosts report of themselves: integrity of files, inventory, assessments, rootcheck, benchmark scans."""
