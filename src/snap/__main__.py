from snap.cli import main

main()
